// RUN: mbc-opt %s -canonicalize | FileCheck %s

// What changes nothing goes away: the yield is left with the operand.

// CHECK-LABEL: mb.rule @identities
// CHECK-NEXT: %[[A:.*]] = mb.operand
// CHECK-NEXT: mb.yield %[[A]]
mb.rule @identities shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %0 = mb.concat %a dim 0 : tensor<4x6xbf16> -> tensor<4x6xbf16>
  %1 = mb.slice %0 at [0, 0] : tensor<4x6xbf16> -> tensor<4x6xbf16>
  %2 = mb.reshape %1 : tensor<4x6xbf16> -> tensor<4x6xbf16>
  %3 = mb.transpose %2 axes [0, 1] : tensor<4x6xbf16> -> tensor<4x6xbf16>
  %4 = mb.scale %3, 1.0 : tensor<4x6xbf16>
  %5 = mb.add %4, -0.0 : tensor<4x6xbf16>
  %6 = mb.cast %5 : tensor<4x6xbf16> -> tensor<4x6xbf16>
  mb.yield %6 [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// Adding +0 turns -0 into +0, so it stays.

// CHECK-LABEL: mb.rule @positive_zero
// CHECK: mb.add
mb.rule @positive_zero shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4xbf16>
  %0 = mb.add %a, 0.0 : tensor<4xbf16>
  mb.yield %0 [#mb.target<0, rank 0, section 0, start [0]>] : tensor<4xbf16>
}
