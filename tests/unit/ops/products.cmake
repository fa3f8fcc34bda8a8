# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
lockstep_unit_test(ops_products
  SOURCES ops/bias_test.cpp ops/convolution_test.cpp ops/inner_product_test.cpp
  USES lockstep_ops)
