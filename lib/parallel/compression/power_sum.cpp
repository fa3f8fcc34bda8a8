// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>

#include "core/dtype.hpp"
#include "core/random.hpp"
#include "parallel/compression/compressed_sum.hpp"

namespace lockstep {
namespace {

/// Returns the inner product of two vectors, added in an order that depends on their length alone.
template <class T>
T inner_product(const T* a, const T* b, std::int64_t count) {
  constexpr int lanes = 16;  // sums that vector instructions may add side by side
  T sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int lane = 0; lane < lanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  T sum = 0;
  for (; i < count; ++i) sum += a[i] * b[i];
  for (const T lane : sums) sum += lane;
  return sum;
}

/// Makes `count` vectors of `length`, one after the other, orthonormal by the modified Gram–Schmidt process, twice for
/// each vector (Giraud, Langou and Rozložník 2005: twice makes them so up to rounding). A vector of which nothing but
/// rounding is left becomes 0, and `lost` is called with its number.
template <class T>
void make_orthonormal(T* vectors, std::int64_t count, std::int64_t length,
                      const std::function<void(std::int64_t)>& lost) {
  for (std::int64_t k = 0; k < count; ++k) {
    T* const vector = vectors + k * length;
    const auto norm = [&] { return std::sqrt(inner_product(vector, vector, length)); };
    const T before = norm();
    for (int pass = 0; pass < 2; ++pass)
      for (std::int64_t other = 0; other < k; ++other) {
        const T* const unit = vectors + other * length;
        const T part = inner_product(vector, unit, length);
        for (std::int64_t i = 0; i < length; ++i) vector[i] -= part * unit[i];
      }
    const T size = norm();
    // (False for a NaN, which shows in the result.)
    if (size <= before * 8 * std::numeric_limits<T>::epsilon()) {
      std::fill(vector, vector + length, T(0));
      lost(k);
    } else {
      for (std::int64_t i = 0; i < length; ++i) vector[i] /= size;
    }
  }
}

}  // namespace

std::int64_t thin_columns(const CompressConfig& config, const CompressedTensor& tensor) {
  const std::int64_t columns = std::min({tensor.rows, tensor.columns, config.rank});
  const auto sent = static_cast<double>((tensor.rows + tensor.columns) * columns);
  return sent * config.min_ratio < static_cast<double>(tensor.rows * tensor.columns) ? columns : 0;
}

namespace {

/// Number of elements in the first sum: those of tensors that travel as they are, and all P.
std::int64_t summed_first(const CompressConfig& config, const CompressedBucket& bucket) {
  std::int64_t count = 0;
  for (const CompressedTensor& tensor : bucket.tensors) {
    const std::int64_t columns = thin_columns(config, tensor);
    count += columns == 0 ? tensor.place.count : tensor.rows * columns;
  }
  return count;
}
std::int64_t most_summed_first(const CompressConfig& config, const std::vector<CompressedBucket>& buckets) {
  return largest_of(buckets, [&](const CompressedBucket& bucket) { return summed_first(config, bucket); });
}

/// Length of the longest row of a tensor that becomes P Qᵀ.
std::int64_t longest_row(const CompressConfig& config, const std::vector<CompressedBucket>& buckets) {
  return largest_of(buckets, [&](const CompressedBucket& bucket) {
    std::int64_t most = 0;
    for (const CompressedTensor& tensor : bucket.tensors)
      if (thin_columns(config, tensor) > 0) most = std::max(most, tensor.columns);
    return most;
  });
}

template <class T>
class PowerSum final : public Collective {
 public:
  PowerSum(const CompressedNumbers<T>& numbers, T* thin, int ranks,
           const std::function<std::unique_ptr<Collective>(const ReduceBuffer&)>& sum)
      : own_(numbers), thin_(thin), ranks_(ranks) {
    std::int64_t next_thin = 0;
    for (const CompressedBucket& bucket : own_.buckets) {
      Plan plan{.first = bucket.place.first, .thin = {next_thin, 0}};
      for (const CompressedTensor& tensor : bucket.tensors)
        if (thin_columns(own_.config, tensor) == 0) {
          plan.whole.push_back(tensor.place);
          plan.sums += tensor.place.count;
        }
      for (const CompressedTensor& tensor : bucket.tensors)
        if (const std::int64_t columns = thin_columns(own_.config, tensor)) {
          plan.matrices.push_back({tensor, columns, plan.sums, next_thin});
          plan.sums += tensor.rows * columns;
          next_thin += tensor.columns * columns;
        }
      plan.thin = ElementRange::between(plan.thin.first, next_thin);
      plans_.push_back(std::move(plan));
    }
    sums_.resize(static_cast<std::size_t>(most_summed_first(own_.config, own_.buckets)));
    row_.resize(static_cast<std::size_t>(longest_row(own_.config, own_.buckets)));
    constexpr DType dtype = std::is_same_v<T, double> ? DType::f64 : DType::f32;
    first_sum_ = sum({dtype, sums_.data()});
    second_sum_ = sum({dtype, thin_});
  }

  void start(std::int64_t first, std::int64_t) override {
    plan_ = &*std::ranges::lower_bound(plans_, first, {}, &Plan::first);
    T* to = sums_.data();
    for (const ElementRange& place : plan_->whole)
      to = std::copy(own_.numbers + place.first, own_.numbers + place.end(), to);
    for (const Matrix& matrix : plan_->matrices) {
      make_thin_orthonormal(matrix);
      multiply(matrix);
    }
    first_sum_->start(0, plan_->sums);
    stage_ = Stage::first;
  }

  bool advance() override {
    if (stage_ == Stage::first) {
      if (!first_sum_->advance()) return false;
      const T* from = sums_.data();
      for (const ElementRange& place : plan_->whole) {
        std::copy(from, from + place.count, own_.numbers + place.first);
        from += place.count;
      }
      for (const Matrix& matrix : plan_->matrices) {
        make_orthonormal<T>(left(matrix), matrix.thin_columns, matrix.tensor.rows, [](std::int64_t) {});
        multiply_transposed(matrix);
      }
      second_sum_->start(plan_->thin.first, plan_->thin.count);
      stage_ = Stage::second;
    }
    if (stage_ == Stage::second) {
      if (!second_sum_->advance()) return false;
      for (const Matrix& matrix : plan_->matrices) expand(matrix);
      stage_ = Stage::done;
    }
    return true;
  }

 private:
  enum class Stage { first, second, done };  ///< the sum of whole tensors and P; then that of Q
  /// P is [thin_columns, rows] in sums_, Q is [thin_columns, columns] in thin_.
  struct Matrix {
    CompressedTensor tensor;
    std::int64_t thin_columns, left, right;
  };
  struct Plan {
    std::int64_t first = 0;  ///< first element of the bucket
    ElementRange thin;
    std::vector<ElementRange> whole;
    std::vector<Matrix> matrices;
    std::int64_t sums = 0;
  };

  T* left(const Matrix& matrix) { return sums_.data() + matrix.left; }
  T* right(const Matrix& matrix) { return thin_ + matrix.right; }
  T* row(const Matrix& matrix, std::int64_t number) {
    return own_.numbers + matrix.tensor.place.first + number * matrix.tensor.columns;
  }

  /// Makes Q orthonormal. Columns without a direction get a random one, the same on all ranks; so do all columns if a
  /// step has left numbers that are not finite, because steps that are left out leave them, too.
  void make_thin_orthonormal(const Matrix& matrix) {
    const std::int64_t length = matrix.tensor.columns;
    const std::span<T> all(right(matrix), static_cast<std::size_t>(matrix.thin_columns * length));
    if (std::ranges::any_of(all, [](T number) { return is_nonfinite(number); })) std::ranges::fill(all, T(0));
    const RandomStream draws(own_.step.seed, RandomPurpose::compression, static_cast<std::uint64_t>(own_.step.number));
    bool has_lost = false;
    make_orthonormal<T>(right(matrix), matrix.thin_columns, length, [&](std::int64_t column) {
      has_lost = true;
      for (std::int64_t i = column * length; i < (column + 1) * length; ++i)
        right(matrix)[i] = static_cast<T>(draws.normal(static_cast<std::uint64_t>(matrix.right + i)));
    });
    if (has_lost) make_orthonormal<T>(right(matrix), matrix.thin_columns, length, [](std::int64_t) {});
  }

  /// M += E; P = M Q.
  void multiply(const Matrix& matrix) {
    for (std::int64_t i = 0; i < matrix.tensor.rows; ++i) {
      const std::int64_t first = row(matrix, i) - own_.numbers;
      own_.add_errors({first, matrix.tensor.columns});
      for (std::int64_t k = 0; k < matrix.thin_columns; ++k)
        left(matrix)[k * matrix.tensor.rows + i] = inner_product<T>(
            row(matrix, i), right(matrix) + k * matrix.tensor.columns, matrix.tensor.columns);
    }
  }
  /// Q = Mᵀ P.
  void multiply_transposed(const Matrix& matrix) {
    const std::int64_t columns = matrix.tensor.columns;
    std::fill(right(matrix), right(matrix) + matrix.thin_columns * columns, T(0));
    for (std::int64_t i = 0; i < matrix.tensor.rows; ++i)
      for (std::int64_t k = 0; k < matrix.thin_columns; ++k)
        add_times(left(matrix)[k * matrix.tensor.rows + i], row(matrix, i), right(matrix) + k * columns, columns);
  }
  /// Replaces M by P Qᵀ, of which each rank has sent an equal part.
  void expand(const Matrix& matrix) {
    const std::int64_t columns = matrix.tensor.columns;
    const T part = T(1) / static_cast<T>(ranks_), unit = own_.error_unit();
    for (std::int64_t i = 0; i < matrix.tensor.rows; ++i) {
      std::fill_n(row_.begin(), columns, T(0));
      for (std::int64_t k = 0; k < matrix.thin_columns; ++k)
        add_times(left(matrix)[k * matrix.tensor.rows + i], right(matrix) + k * columns, row_.data(), columns);
      T* const numbers = row(matrix, i);
      if (own_.errors) {
        T* const errors = own_.errors + (numbers - own_.numbers);
        for (std::int64_t j = 0; j < columns; ++j)
          errors[j] = (numbers[j] - row_[static_cast<std::size_t>(j)] * part) * unit;
      }
      std::copy_n(row_.begin(), columns, numbers);
    }
  }
  static void add_times(T factor, const T* __restrict from, T* __restrict to, std::int64_t count) {
    for (std::int64_t j = 0; j < count; ++j) to[j] += factor * from[j];
  }

  CompressedNumbers<T> own_;
  T* thin_;
  int ranks_;
  std::vector<Plan> plans_;  ///< for each bucket
  std::vector<T> sums_;      ///< of a bucket: tensors that travel as they are, and then all P
  std::vector<T> row_;
  std::unique_ptr<Collective> first_sum_, second_sum_;
  const Plan* plan_ = nullptr;
  Stage stage_ = Stage::done;
};

}  // namespace

std::size_t power_buffer_bytes(const CompressConfig& config, const std::vector<CompressedBucket>& buckets,
                               std::size_t element_bytes) {
  return static_cast<std::size_t>(most_summed_first(config, buckets) + longest_row(config, buckets)) * element_bytes;
}

template <class T>
std::unique_ptr<Collective> power_sum(const CompressedNumbers<T>& numbers, T* thin, int ranks,
                                      const std::function<std::unique_ptr<Collective>(const ReduceBuffer&)>& sum) {
  return std::make_unique<PowerSum<T>>(numbers, thin, ranks, sum);
}

template std::unique_ptr<Collective> power_sum(const CompressedNumbers<float>&, float*, int,
                                               const std::function<std::unique_ptr<Collective>(const ReduceBuffer&)>&);
template std::unique_ptr<Collective> power_sum(const CompressedNumbers<double>&, double*, int,
                                               const std::function<std::unique_ptr<Collective>(const ReduceBuffer&)>&);

}  // namespace lockstep
