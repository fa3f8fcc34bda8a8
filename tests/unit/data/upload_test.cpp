// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/batch/upload.hpp"

#include <cstring>

#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

template <class T, class U>
HostBatch batch_of(const std::vector<T>& inputs, const std::vector<U>& targets, std::int64_t n) {
  HostBatch batch;
  batch.plan.examples.resize(static_cast<std::size_t>(n));
  batch.inputs = Kokkos::View<std::byte*, StagingSpace>("inputs", inputs.size() * sizeof(T));
  batch.targets = Kokkos::View<std::byte*, StagingSpace>("targets", targets.size() * sizeof(U));
  std::memcpy(batch.inputs.data(), inputs.data(), inputs.size() * sizeof(T));
  std::memcpy(batch.targets.data(), targets.data(), targets.size() * sizeof(U));
  return batch;
}

template <class T>
std::vector<T> host(const Tensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.count()));
  EXPECT_EQ(tensor.dtype, dtype_of<T>());
  copy_to_host(ExecSpace(), tensor, values.data());
  return values;
}

DataConfig deck(std::vector<double> mean, std::vector<double> std) {
  DataConfig config;
  config.normalize.mean = std::move(mean);
  config.normalize.std = std::move(std);
  return config;
}

Normalization normalization(const ExampleFormat& format, std::vector<double> mean, std::vector<double> std) {
  return normalization_of(deck(std::move(mean), std::move(std)), format, false);
}

const ExampleFormat images{{2, 2, 3}, DType::u8, {}, DType::i32};

TEST(Upload, NormalizesBytesPerChannel) {
  std::vector<std::uint8_t> pixels(3 * 12);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(7 * i);
  const HostBatch batch = batch_of(pixels, std::vector<std::int32_t>{4, 5, 6}, 3);
  const double mean[] = {0.1, 0.2, 0.3}, std[] = {0.5, 0.25, 1.5};
  for (const bool per_channel : {true, false}) {
    const Normalization config = per_channel ? normalization(images, {0.1, 0.2, 0.3}, {0.5, 0.25, 1.5})
                                             : normalization(images, {0.1}, {0.5});
    BatchUploader f64(images, config, DType::f64, 3), f32(images, config, DType::f32, 3);
    const DeviceBatch a = f64.upload(ExecSpace(), batch, 0, 3), b = f32.upload(ExecSpace(), batch, 0, 3);
    EXPECT_EQ(a.n, 3);
    EXPECT_EQ(a.inputs.shape, Shape({3, 2, 2, 3}));
    EXPECT_EQ(a.targets.shape, Shape({3}));
    const auto x = host<double>(a.inputs);
    const auto y = host<float>(b.inputs);
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      const std::size_t c = per_channel ? i % 3 : 0;
      const double expected = (pixels[i] / 255.0 - mean[c]) / std[c];
      EXPECT_NEAR(x[i], expected, 1e-14);
      EXPECT_NEAR(y[i], expected, 1e-6);
    }
    EXPECT_EQ(host<std::int32_t>(a.targets), (std::vector<std::int32_t>{4, 5, 6}));
  }
}

TEST(Upload, SlicesForMicroBatches) {
  std::vector<std::uint8_t> pixels(5 * 12);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i);
  const HostBatch batch = batch_of(pixels, std::vector<std::int32_t>{0, 1, 2, 3, 4}, 5);
  BatchUploader uploader(images, normalization(images, {}, {}), DType::f64, 2);
  const DeviceBatch slice = uploader.upload(ExecSpace(), batch, 3, 2);
  EXPECT_NEAR(host<double>(slice.inputs)[0], 36 / 255.0, 1e-15);
  EXPECT_EQ(host<std::int32_t>(slice.targets), (std::vector<std::int32_t>{3, 4}));
  EXPECT_EQ(uploader.upload(ExecSpace(), batch, 5, 0).inputs.shape, Shape({0, 2, 2, 3}));
}

TEST(Upload, FloatsStayAsTheyAreWithoutNormalize) {
  const ExampleFormat vectors{{4}, DType::f32, {2}, DType::f32};
  const std::vector<float> x{1, -2, 3, 0.1F, 5, 6, 7, 8}, y{0.3F, 1, 2, 3};
  const HostBatch batch = batch_of(x, y, 2);
  BatchUploader f32(vectors, {}, DType::f32, 2), f64(vectors, {}, DType::f64, 2);
  const DeviceBatch a = f32.upload(ExecSpace(), batch, 0, 2), b = f64.upload(ExecSpace(), batch, 0, 2);
  EXPECT_EQ(host<float>(a.inputs), x);
  EXPECT_EQ(host<float>(a.targets), y);
  EXPECT_EQ(host<double>(b.inputs), std::vector<double>(x.begin(), x.end()));
  EXPECT_EQ(host<double>(b.targets), std::vector<double>(y.begin(), y.end()));
  EXPECT_EQ(b.targets.shape, Shape({2, 2}));

  BatchUploader normalized(vectors, normalization(vectors, {1}, {2}), DType::f64, 2);
  EXPECT_NEAR(host<double>(normalized.upload(ExecSpace(), batch, 0, 2).inputs)[1], -1.5, 1e-15);
}

TEST(Upload, NormalizeMustFitTheChannels) {
  expect_error(ExitStatus::bad_deck, "has 2 entries (the inputs have 3 channels)",
               [] { normalization(images, {0, 0}, {1, 1}); });
  for (const std::size_t entries : {0, 1, 3})
    normalization(images, std::vector<double>(entries, 0.5), std::vector<double>(entries, 1));
}

void note(const ExecSpace& space, const float* x, const float* t, float* seen) {
  Kokkos::parallel_for(
      "lockstep::test::note", RangePolicy(space, 0, 1), KOKKOS_LAMBDA(const std::int64_t) {
        seen[0] = x[2];
        seen[1] = t[1];
      });
}

/// Kernels of successive batches do not wait for each other on the host: each reads its own numbers, from memory that
/// the batch before does not use.
TEST(Upload, FollowEachOtherWithoutWaiting) {
  const ExampleFormat vectors{{3}, DType::f32, {2}, DType::f32};
  BatchUploader uploader(vectors, {}, DType::f32, 1);
  const ExecSpace space;
  constexpr int batches = 6;
  OwnedTensor seen("seen", DType::f32, {batches, 2});
  std::vector<HostBatch> given;
  for (int i = 0; i < batches; ++i)
    given.push_back(batch_of(std::vector<float>(3, 10.0F + static_cast<float>(i)),
                             std::vector<float>{static_cast<float>(i), -static_cast<float>(i)}, 1));
  for (int i = 0; i < batches; ++i) {
    const DeviceBatch batch = uploader.upload(space, given[static_cast<std::size_t>(i)], 0, 1);
    note(space, batch.inputs.as<const float>(), batch.targets.as<const float>(), seen.get().as<float>() + 2 * i);
  }
  const auto values = host<float>(seen.get());
  for (std::size_t i = 0; i < batches; ++i) {
    EXPECT_EQ(values[2 * i], 10.0F + static_cast<float>(i));
    EXPECT_EQ(values[2 * i + 1], -static_cast<float>(i));
  }
}

}  // namespace
}  // namespace lockstep::test
