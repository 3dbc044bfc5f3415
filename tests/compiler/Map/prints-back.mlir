// RUN: mbc-opt %s | mbc-opt | FileCheck %s

// Every operation as it is written in the reference, read and printed twice.

// CHECK-LABEL: mb.rule @whole shard <row, dim = 1>
mb.rule @whole shard <row, dim = 1> {
  // CHECK: mb.operand hf 0 : tensor<4x6xbf16>
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // CHECK: mb.fill {{.*}} : tensor<2x6xbf16>
  %f = mb.fill 0.0 : tensor<2x6xbf16>
  // CHECK: mb.concat %{{.*}}, %{{.*}} dim 0 : tensor<4x6xbf16>, tensor<2x6xbf16> -> tensor<6x6xbf16>
  %c = mb.concat %a, %f dim 0 : tensor<4x6xbf16>, tensor<2x6xbf16> -> tensor<6x6xbf16>
  // CHECK: mb.slice %{{.*}} at [2, 0] : tensor<6x6xbf16> -> tensor<4x6xbf16>
  %s = mb.slice %c at [2, 0] : tensor<6x6xbf16> -> tensor<4x6xbf16>
  // CHECK: mb.stack %{{.*}}, %{{.*}} dim 0
  %k = mb.stack %a, %s dim 0 : tensor<4x6xbf16>, tensor<4x6xbf16> -> tensor<2x4x6xbf16>
  // CHECK: mb.reshape %{{.*}} : tensor<2x4x6xbf16> -> tensor<8x6xbf16>
  %r = mb.reshape %k : tensor<2x4x6xbf16> -> tensor<8x6xbf16>
  // CHECK: mb.transpose %{{.*}} axes [1, 0] : tensor<8x6xbf16> -> tensor<6x8xbf16>
  %t = mb.transpose %r axes [1, 0] : tensor<8x6xbf16> -> tensor<6x8xbf16>
  // CHECK: mb.add %{{.*}}, 1.000000e+00 : tensor<6x8xbf16>
  %p = mb.add %t, 1.0 : tensor<6x8xbf16>
  // CHECK: mb.scale %{{.*}}, 5.000000e-01 : tensor<6x8xbf16>
  %h = mb.scale %p, 0.5 : tensor<6x8xbf16>
  // CHECK: mb.cast %{{.*}} exact : tensor<6x8xbf16> -> tensor<6x8xf32>
  %x = mb.cast %h exact : tensor<6x8xbf16> -> tensor<6x8xf32>
  // CHECK: mb.yield %{{.*}} [#mb.target<0, rank 0, section 0, start[0, 0]>] : tensor<6x8xf32>
  mb.yield %x [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<6x8xf32>
}

// CHECK-LABEL: mb.rule @stored shard <gated, dim = 0, expert = true> sections {{\[}}array<i64: 2, 2>] label "fc1"
mb.rule @stored shard <gated, dim = 0, expert = true> sections [array<i64: 2, 2>] label "fc1" {
  // CHECK: mb.operand megatron 0 parts [#mb.part<[2], <[0] to[0] shape[2]>>, #mb.part<[2], <[0] to[2] shape[2]>>]
  %m = mb.operand megatron 0 parts [#mb.part<[2], <[0] to [0] shape [2]>>, #mb.part<[2], <[0] to [2] shape [2]>>] : tensor<4xf32>
  // CHECK: mb.operand hf 0 part 1 : tensor<2xf32>
  %h = mb.operand hf 0 part 1 : tensor<2xf32>
  // CHECK: mb.gather %{{.*}}, %{{.*}} [
  %g = mb.gather %h, %h [#mb.part<[2], <[0] to [0] shape [2]>>, #mb.part<[2], <[0] to [2] shape [2]>>] : tensor<2xf32>, tensor<2xf32> -> tensor<4xf32>
  // CHECK: mb.equate
  mb.equate %m, %g : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: mb.rule @fused
mb.rule @fused shard <replicated, dim = 0> {
  %w = mb.operand hf 0 : tensor<130x128xf8E4M3FN>
  // CHECK: mb.operand hf 0 scales : tensor<2x1xf32>
  %s = mb.operand hf 0 scales : tensor<2x1xf32>
  // CHECK: mb.dequant %{{.*}}, %{{.*}} block [128, 128]
  %d = mb.dequant %w, %s block [128, 128] : tensor<130x128xf8E4M3FN>, tensor<2x1xf32> -> tensor<130x128xf32>
  %w4 = mb.operand hf 2 : tensor<2x64xui4>
  %s8 = mb.operand hf 2 scales : tensor<2x2xsi8>
  // CHECK: mb.dequant %{{.*}}, %{{.*}} block [1, 32] : tensor<2x64xui4>, tensor<2x2xsi8>
  %d4 = mb.dequant %w4, %s8 block [1, 32] : tensor<2x64xui4>, tensor<2x2xsi8> -> tensor<2x64xf32>
  %se = mb.operand hf 2 scales : tensor<2x4xf8E4M3FN>
  // CHECK: mb.operand hf 2 tensor_scale : tensor<1x1xf32>
  %st = mb.operand hf 2 tensor_scale : tensor<1x1xf32>
  // CHECK: mb.dequant %{{.*}}, %{{.*}} tensor_scale %{{.*}} block [1, 16] : tensor<2x64xui4>, tensor<2x4xf8E4M3FN>, tensor<1x1xf32> -> tensor<2x64xf32>
  %dt = mb.dequant %w4, %se tensor_scale %st block [1, 16] : tensor<2x64xui4>, tensor<2x4xf8E4M3FN>, tensor<1x1xf32> -> tensor<2x64xf32>
  // CHECK: mb.dequant %{{.*}}, %{{.*}} tensor_scale %{{.*}} divides block [1, 16]
  %dd = mb.dequant %w4, %se tensor_scale %st divides block [1, 16] : tensor<2x64xui4>, tensor<2x4xf8E4M3FN>, tensor<1x1xf32> -> tensor<2x64xf32>
  // CHECK: mb.fused(%{{.*}}) scales(%{{.*}}) block [128, 128] kernel "k" [#mb.box<0 from 0 by[128, 1] to 0 by[128, 1] count[130, 128]>]
  %f = mb.fused (%w) scales (%s) block [128, 128] kernel "k"
    [#mb.box<0 from 0 by [128, 1] to 0 by [128, 1] count [130, 128]>]
    : (tensor<130x128xf8E4M3FN>, tensor<2x1xf32>) -> tensor<130x128xbf16> {
  ^bb0(%x: f8E4M3FN, %scale: f32):
    // CHECK: mb.convert %{{.*}} : f8E4M3FN -> f32
    %0 = mb.convert %x : f8E4M3FN -> f32
    %1 = arith.mulf %0, %scale : f32
    // CHECK: mb.convert %{{.*}} exact : f32 -> bf16
    %2 = mb.convert %1 exact : f32 -> bf16
    // CHECK: mb.return %{{.*}} : bf16
    mb.return %2 : bf16
  }
  // CHECK: mb.fused() [#mb.box<-1 from 0 by[0] to 0 by[1] count[4], fill = 7>] : () -> tensor<4xbf16>
  %e = mb.fused () [#mb.box<-1 from 0 by [0] to 0 by [1] count [4], fill = 7>] : () -> tensor<4xbf16> {}
  mb.yield %f, %e [#mb.target<0, rank 0, section 0, start [0, 0]>, #mb.target<1, rank 0, section 0, start [0]>] : tensor<130x128xbf16>, tensor<4xbf16>
}
