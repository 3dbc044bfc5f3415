// RUN: mbc-opt %s "-mb-shard=tp=2 etp=1" | FileCheck %s
// RUN: mbc-opt %s "-mb-shard=tp=2 etp=1 join=true" | FileCheck %s --check-prefix=JOIN

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

// CHECK-LABEL: mb.rule @to_hf
// CHECK-NOT: mb.slice
mb.rule @to_hf shard <column, dim = 0> {
  %m = mb.operand megatron 0 : tensor<8xbf16>
  mb.yield %m [#mb.target<0, rank 0, section 0, start [0]>] : tensor<8xbf16>
}
