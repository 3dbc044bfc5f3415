// RUN: mbc-opt %s -mb-fuse | FileCheck %s

// Columns 2..4 of a concat of two tensors: two strided boxes, no body.

// CHECK-LABEL: mb.rule @movement
// CHECK: mb.fused(%{{.*}}, %{{.*}}) [#mb.box<0 from 2 by[4, 1] to 0 by[2, 1] count[2, 2]>, #mb.box<1 from 2 by[4, 1] to 4 by[2, 1] count[3, 2]>] : (tensor<2x4xbf16>, tensor<3x4xbf16>) -> tensor<5x2xbf16>
// CHECK-NEXT: }
// CHECK-NEXT: mb.yield
mb.rule @movement shard <row, dim = 1> {
  %a = mb.operand hf 0 : tensor<2x4xbf16>
  %b = mb.operand hf 1 : tensor<3x4xbf16>
  %c = mb.concat %a, %b dim 0 : tensor<2x4xbf16>, tensor<3x4xbf16> -> tensor<5x4xbf16>
  %s = mb.slice %c at [0, 2] : tensor<5x4xbf16> -> tensor<5x2xbf16>
  mb.yield %s [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<5x2xbf16>
}

// A constant is folded through what happens to it: 0.0 + 1.0 is 0x3F80.

// CHECK-LABEL: mb.rule @arithmetic
// CHECK: #mb.box<-1 from 0 by[0] to 2 by[1] count[2], fill = 16256>
// CHECK: ^bb0(%[[X:.*]]: bf16):
// CHECK: %[[W:.*]] = mb.convert %[[X]] : bf16 -> f32
// CHECK: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK: %[[SUM:.*]] = arith.addf %[[W]], %[[ONE]]
// CHECK: mb.convert %[[SUM]] : f32 -> bf16
mb.rule @arithmetic shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<2xbf16>
  %f = mb.fill 0.0 : tensor<2xbf16>
  %c = mb.concat %a, %f dim 0 : tensor<2xbf16>, tensor<2xbf16> -> tensor<4xbf16>
  %p = mb.add %c, 1.0 : tensor<4xbf16>
  mb.yield %p [#mb.target<0, rank 0, section 0, start [0]>] : tensor<4xbf16>
}

// Scales come along, and the weight's rows are not merged into one run.

// CHECK-LABEL: mb.rule @scaled
// CHECK: mb.fused(%{{.*}}) scales(%{{.*}}) block [128, 128] [#mb.box<0 from 0 by[128, 1] to 0 by[128, 1] count[130, 128]>]
// CHECK: ^bb0(%[[X:.*]]: f8E4M3FN, %[[S:.*]]: f32):
// CHECK: %[[C:.*]] = mb.convert %[[X]] : f8E4M3FN -> f32
// CHECK: arith.mulf %[[C]], %[[S]]
mb.rule @scaled shard <replicated, dim = 0> {
  %w = mb.operand hf 0 : tensor<130x128xf8E4M3FN>
  %s = mb.operand hf 0 scales : tensor<2x1xf32>
  %d = mb.dequant %w, %s block [128, 128] : tensor<130x128xf8E4M3FN>, tensor<2x1xf32> -> tensor<130x128xf32>
  %b = mb.cast %d : tensor<130x128xf32> -> tensor<130x128xbf16>
  mb.yield %b [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<130x128xbf16>
}

// A tensor scale is applied to the scale, in f32, before that multiplies.
// CHECK-LABEL: mb.rule @two_levels
// CHECK: mb.fused(%{{.*}}) scales(%{{.*}}) block [1, 16] tensor_scales(%{{.*}})
// CHECK: ^bb0(%[[X:.*]]: ui4, %[[S:.*]]: f8E4M3FN, %[[T:.*]]: f32):
// CHECK: %[[XF:.*]] = mb.convert %[[X]] : ui4 -> f32
// CHECK: %[[SF:.*]] = mb.convert %[[S]] : f8E4M3FN -> f32
// CHECK: %[[D:.*]] = arith.divf %[[SF]], %[[T]] : f32
// CHECK: arith.mulf %[[XF]], %[[D]] : f32
mb.rule @two_levels shard <replicated, dim = 0> {
  %w = mb.operand hf 0 : tensor<2x64xui4>
  %s = mb.operand hf 0 scales : tensor<2x4xf8E4M3FN>
  %t = mb.operand hf 0 tensor_scale : tensor<1x1xf32>
  %d = mb.dequant %w, %s tensor_scale %t divides block [1, 16] : tensor<2x64xui4>, tensor<2x4xf8E4M3FN>, tensor<1x1xf32> -> tensor<2x64xf32>
  %c = mb.cast %d : tensor<2x64xf32> -> tensor<2x64xbf16>
  mb.yield %c [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<2x64xbf16>
}
