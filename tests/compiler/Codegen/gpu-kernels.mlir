// RUN: mbc-opt %s -mb-compile=direction=import -mb-gpu-kernels | FileCheck %s --check-prefixes=CHECK,OLD
// RUN: mbc-opt %s -mb-compile=direction=import -mb-gpu-kernels=sm90=true | FileCheck %s --check-prefixes=CHECK,NEW

// Both shapes share two entries: vectors, and anything.

// CHECK-NOT: mb.rule
// CHECK-LABEL: llvm.func @mbc_f8E4M3FN_f32_mul_scale_bf16_by_f32(
// CHECK-SAME: nvvm.kernel
// CHECK-SAME: nvvm.maxntid = array<i32: 256>
// Four rows are loaded before anything is computed.
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xi32>
// OLD: arith.mulf {{.*}} : vector<2xf16>
// NEW: cvt.rn.f16x2.e4m3x2
// CHECK: llvm.nvvm.ff2bf16x2.rn
// OLD-NOT: arith.minsi
// NEW: arith.minsi {{.*}} : vector<2xi16>
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-LABEL: llvm.func @mbc_f8E4M3FN_f32_mul_scale_bf16_by_f32_any(
// CHECK: llvm.load {{.*}} {alignment = 1 : i64} : !llvm.ptr<1> -> i8
// CHECK: llvm.store {{.*}} {alignment = 2 : i64} : i16, !llvm.ptr<1>
// CHECK-NOT: llvm.func
mb.rule @first shard <replicated, dim = 0> {
  %m = mb.operand megatron 0 : tensor<130x128xbf16>
  %w = mb.operand hf 0 : tensor<130x128xf8E4M3FN>
  %s = mb.operand hf 0 scales : tensor<2x1xf32>
  %d = mb.dequant %w, %s block [128, 128] : tensor<130x128xf8E4M3FN>, tensor<2x1xf32> -> tensor<130x128xf32>
  %c = mb.cast %d : tensor<130x128xf32> -> tensor<130x128xbf16>
  mb.equate %m, %c : tensor<130x128xbf16>, tensor<130x128xbf16>
}
