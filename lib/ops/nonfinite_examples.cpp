// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/reduction.hpp"

#include "core/dtype.hpp"
#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

/// False for NaN. Row numbers are rounded as `find_table_rows` rounds them.
template <class C>
KOKKOS_INLINE_FUNCTION bool is_row_of(std::int64_t rows, C number) {
  const C row = Kokkos::round(number);
  return row >= C(0) && row < static_cast<C>(rows);
}

template <class T>
void flag(const ExecSpace& space, const Tensor& inputs, const std::int64_t* tables, std::int32_t* flags) {
  const std::int64_t examples = inputs.shape[0], numbers = inputs.count() / examples;
  const T* const x = inputs.as<const T>();
  for_sums_of_parts(
      space, "lockstep::flag_nonfinite_examples", examples,
      KOKKOS_LAMBDA(const PartSums& numbers_of, const std::int64_t example) {
        const T* const own = x + example * numbers;
        int bad = numbers_of.sum(numbers, 0,
                                 [&](const std::int64_t i) { return is_nonfinite(Compute<T>(own[i])) ? 1 : 0; });
        if (tables)
          bad = numbers_of.sum(numbers, bad, [&](const std::int64_t i) {
            return tables[i] == 0 || is_row_of(tables[i], Compute<T>(own[i])) ? 0 : 1;
          });
        numbers_of.once([&] { flags[example] = bad > 0 ? 1 : 0; });
      });
}

template <class T>
void spoil(const ExecSpace& space, const std::int32_t* flags, std::int64_t first, std::int64_t rows_each,
           const Tensor& outputs) {
  const std::int64_t rows = outputs.shape[0], columns = outputs.count() / rows;
  T* const y = outputs.as<T>();
  Kokkos::parallel_for(
      "lockstep::spoil_flagged_examples", RangePolicy(space, 0, rows), KOKKOS_LAMBDA(const std::int64_t row) {
        if (flags[(first + row) / rows_each] == 0) return;
        for (std::int64_t j = 0; j < columns; ++j)
          y[row * columns + j] = T(Kokkos::Experimental::quiet_NaN_v<Compute<T>>);
      });
}

}  // namespace

void flag_nonfinite_examples(const ExecSpace& space, const Tensor& inputs, const Tensor& tables, const Tensor& flags) {
  dispatch_float(inputs.dtype, [&]<class T>(T) {
    flag<T>(space, inputs, tables ? tables.as<const std::int64_t>() : nullptr, flags.as<std::int32_t>());
  });
}

void spoil_flagged_examples(const ExecSpace& space, const Tensor& flags, std::int64_t first, std::int64_t rows_each,
                            const Tensor& outputs) {
  dispatch_float(outputs.dtype,
                 [&]<class T>(T) { spoil<T>(space, flags.as<const std::int32_t>(), first, rows_each, outputs); });
}

}  // namespace lockstep
