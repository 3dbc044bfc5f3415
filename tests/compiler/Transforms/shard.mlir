// RUN: mbc-opt %s "-mb-shard=tp=2 etp=1 ep=4" | FileCheck %s
// RUN: mbc-opt %s "-mb-shard=tp=2 etp=1 ep=4 join=true" | FileCheck %s --check-prefix=JOIN

// CHECK-LABEL: mb.rule @row
// CHECK: mb.slice %{{.*}} at [0, 0] : tensor<4x6xbf16> -> tensor<4x3xbf16>
// CHECK: mb.slice %{{.*}} at [0, 3] : tensor<4x6xbf16> -> tensor<4x3xbf16>
// CHECK: mb.yield {{.*}} [#mb.target<0, rank 0, section 0, start[0, 0]>, #mb.target<0, rank 1, section 0, start[0, 3]>]
mb.rule @row shard <row, dim = 1> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// Two sections of 4 rows: each rank has two rows of either.

// CHECK-LABEL: mb.rule @gated
// CHECK: mb.yield {{.*}} [#mb.target<0, rank 0, section 0, start[0]>, #mb.target<0, rank 0, section 1, start[4]>, #mb.target<0, rank 1, section 0, start[2]>, #mb.target<0, rank 1, section 1, start[6]>]
// JOIN-LABEL: mb.rule @gated
// JOIN: %[[G:.*]] = mb.slice %{{.*}} at [2]
// JOIN: %[[U:.*]] = mb.slice %{{.*}} at [6]
// JOIN: mb.concat %[[G]], %[[U]] dim 0
mb.rule @gated shard <gated, dim = 0> sections [array<i64: 4, 4>] {
  %a = mb.operand hf 0 : tensor<8xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0]>] : tensor<8xbf16>
}

// One rank for experts, and nothing to cut on the way to Hugging Face.

// CHECK-LABEL: mb.rule @expert
// CHECK: mb.yield {{.*}} [#mb.target<0, rank 0, section 0, start[0]>] : tensor<8xbf16>
mb.rule @expert shard <column, dim = 0, expert = true> {
  %a = mb.operand hf 0 : tensor<8xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0]>] : tensor<8xbf16>
}

// Seven rows over four expert ranks: 2, 2, 2 and 1.

// CHECK-LABEL: mb.rule @expert_rows
// CHECK: mb.slice %{{.*}} at [0, 0] : tensor<7x3xbf16> -> tensor<2x3xbf16>
// CHECK: mb.slice %{{.*}} at [2, 0] : tensor<7x3xbf16> -> tensor<2x3xbf16>
// CHECK: mb.slice %{{.*}} at [4, 0] : tensor<7x3xbf16> -> tensor<2x3xbf16>
// CHECK: mb.slice %{{.*}} at [6, 0] : tensor<7x3xbf16> -> tensor<1x3xbf16>
// CHECK: mb.yield {{.*}} [#mb.target<0, rank 0, section 0, start[0, 0]>, #mb.target<0, rank 1, section 0, start[2, 0]>, #mb.target<0, rank 2, section 0, start[4, 0]>, #mb.target<0, rank 3, section 0, start[6, 0]>]
mb.rule @expert_rows shard <expert_rows, dim = 0> {
  %a = mb.operand hf 0 : tensor<7x3xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<7x3xbf16>
}

// Three rows: the last rank has none.

// CHECK-LABEL: mb.rule @fewer_rows
// CHECK: mb.slice %{{.*}} at [2, 0] : tensor<3x3xbf16> -> tensor<1x3xbf16>
// CHECK: mb.slice %{{.*}} at [3, 0] : tensor<3x3xbf16> -> tensor<0x3xbf16>
mb.rule @fewer_rows shard <expert_rows, dim = 0> {
  %a = mb.operand hf 0 : tensor<3x3xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<3x3xbf16>
}

// CHECK-LABEL: mb.rule @to_hf
// CHECK-NOT: mb.slice
mb.rule @to_hf shard <column, dim = 0> {
  %m = mb.operand megatron 0 : tensor<8xbf16>
  mb.yield %m [#mb.target<0, rank 0, section 0, start [0]>] : tensor<8xbf16>
}
