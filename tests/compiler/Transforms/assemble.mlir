// RUN: mbc-opt %s -mb-assemble | FileCheck %s

// CHECK-LABEL: mb.rule @parts
// CHECK: %[[P:.*]] = mb.operand megatron 0 part 0 : tensor<2x4xbf16>
// CHECK: %[[Q:.*]] = mb.operand megatron 0 part 1 : tensor<2x4xbf16>
// CHECK: %[[G:.*]] = mb.gather %[[P]], %[[Q]]
// CHECK: mb.yield %[[G]]
mb.rule @parts shard <column, dim = 0> {
  %m = mb.operand megatron 0 parts [#mb.part<[2, 4], <[0, 0] to [0, 0] shape [2, 4]>>, #mb.part<[2, 4], <[0, 0] to [2, 0] shape [2, 4]>>] : tensor<4x4xbf16>
  mb.yield %m [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x4xbf16>
}

// CHECK-LABEL: mb.rule @whole
// CHECK-NEXT: mb.operand megatron 0 : tensor<4xbf16>
// CHECK-NEXT: mb.yield
mb.rule @whole shard <replicated, dim = 0> {
  %m = mb.operand megatron 0 : tensor<4xbf16>
  mb.yield %m [#mb.target<0, rank 0, section 0, start [0]>] : tensor<4xbf16>
}
