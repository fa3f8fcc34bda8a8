// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/parameter_blocks.hpp"

#include "core/packs.hpp"

namespace lockstep {
namespace {

/// Calls change(i, parameter, average) for each element. The parameter is constant with Reads, and may be changed with
/// Updates. make() returns a new `change` for each block (on GPUs: in each thread).
template <template <class> class Parameters, class T, class Make>
void for_averages(const ExecSpace& space, const char* label, const ParameterBlock* blocks, std::int64_t count,
                  T* parameters, T* average, const Make& make) {
  if constexpr (thread_per_element) {
    constexpr int lanes = 16 / sizeof(T), packs = array_block / lanes;  // packs of a block
    Kokkos::parallel_for(
        label, RangePolicy(space, 0, count * packs), KOKKOS_LAMBDA(const std::int64_t index) {
          const ParameterBlock block = blocks[index / packs];
          const std::int64_t i = index % packs * lanes, end = i + lanes < block.count ? i + lanes : block.count;
          const auto change = make();
          const ArrayList<Parameters<T>, Updates<T>> arrays(Parameters<T>(parameters + block.first),
                                                            Updates<T>(average + block.state));
          if (i + lanes == end && arrays.template have_packs<lanes>(i))
            return arrays.template do_pack<lanes>(change, i);
          for (std::int64_t j = i; j < end; ++j) arrays.do_element(change, j);
        });
  } else {
    Kokkos::parallel_for(
        label, RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t b) {
          const ParameterBlock block = blocks[b];
          const auto change = make();
#pragma GCC ivdep
          for (std::int64_t i = 0; i < block.count; ++i)
            change(i, parameters[block.first + i], average[block.state + i]);
        });
  }
}

template <class T>
struct Average {
  T rest;
  bool first, left_out;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t, const T& parameter, T& average) const {
    const T moved = average + rest * (parameter - average);
    average = left_out ? average : first ? parameter : moved;
  }
};
template <class T>
struct MakeAverage {
  T rest;
  const UpdateScalars* step;
  KOKKOS_INLINE_FUNCTION Average<T> operator()() const { return {rest, step->first != 0, step->left_out != 0}; }
};

template <class T>
struct Begin {
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t, const T& parameter, T& average) const { average = parameter; }
};
template <class T>
struct MakeBegin {
  KOKKOS_INLINE_FUNCTION Begin<T> operator()() const { return {}; }
};

template <class T>
struct Swap {
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t, T& parameter, T& average) const {
    const T before = parameter;
    parameter = average;
    average = before;
  }
};
template <class T>
struct MakeSwap {
  KOKKOS_INLINE_FUNCTION Swap<T> operator()() const { return {}; }
};

/// for_averages of flat arrays.
template <class T, class Make>
void for_each_average(const ExecSpace& space, const char* label, std::int64_t count, T* parameters, T* average,
                      const Make& make) {
  Kokkos::parallel_for(
      label, RangePolicy(space, 0, count),
      KOKKOS_LAMBDA(const std::int64_t i) { make()(i, parameters[i], average[i]); });
}

}  // namespace

void begin_average(const ExecSpace& space, const ParameterBlock* blocks, std::int64_t count, const Tensor& parameters,
                   const Tensor& average) {
  dispatch_master(parameters.dtype, [&]<class T>(T) {
    for_averages<Reads>(space, "lockstep::ema::begin", blocks, count, parameters.as<T>(), average.as<T>(),
                        MakeBegin<T>());
  });
}

void update_average(const ExecSpace& space, const ParameterBlock* blocks, std::int64_t count, double decay,
                    const UpdateScalars* step, const Tensor& parameters, const Tensor& average) {
  dispatch_master(parameters.dtype, [&]<class T>(T) {
    for_averages<Reads>(space, "lockstep::ema::update", blocks, count, parameters.as<T>(), average.as<T>(),
                        MakeAverage<T>{static_cast<T>(1 - decay), step});
  });
}

void swap_average(const ExecSpace& space, const ParameterBlock* blocks, std::int64_t count, const Tensor& parameters,
                  const Tensor& average) {
  dispatch_master(parameters.dtype, [&]<class T>(T) {
    for_averages<Updates>(space, "lockstep::ema::swap", blocks, count, parameters.as<T>(), average.as<T>(),
                          MakeSwap<T>());
  });
}

void update_average(const ExecSpace& space, double decay, const UpdateScalars* step, const Tensor& values,
                    const Tensor& average) {
  dispatch_master(values.dtype, [&]<class T>(T) {
    for_each_average(space, "lockstep::ema::update_statistics", values.count(), values.as<T>(), average.as<T>(),
                     MakeAverage<T>{static_cast<T>(1 - decay), step});
  });
}

void swap_average(const ExecSpace& space, const Tensor& values, const Tensor& average) {
  dispatch_master(values.dtype, [&]<class T>(T) {
    for_each_average(space, "lockstep::ema::swap_statistics", values.count(), values.as<T>(), average.as<T>(),
                     MakeSwap<T>());
  });
}

}  // namespace lockstep
