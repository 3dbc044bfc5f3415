// RUN: mbc-opt %s -mb-orient=direction=import | FileCheck %s --check-prefix=IMPORT
// RUN: mbc-opt %s -mb-orient=direction=export | FileCheck %s --check-prefix=EXPORT

// IMPORT-LABEL: mb.rule @joined
// IMPORT-NOT: megatron
// IMPORT: %[[C:.*]] = mb.concat
// IMPORT: mb.yield %[[C]] [#mb.target<0, rank 0, section 0, start[0, 0]>]
// EXPORT-LABEL: mb.rule @joined
// EXPORT-NOT: mb.operand hf
// EXPORT: %[[M:.*]] = mb.operand megatron 0
// EXPORT: mb.slice %[[M]] at [0, 0] : tensor<6x4xbf16> -> tensor<4x4xbf16>
// EXPORT: mb.slice %[[M]] at [4, 0] : tensor<6x4xbf16> -> tensor<2x4xbf16>
// EXPORT: mb.yield {{.*}} [#mb.target<0, {{.*}}>, #mb.target<1, {{.*}}>]
mb.rule @joined shard <column, dim = 0> {
  %m = mb.operand megatron 0 : tensor<6x4xbf16>
  %a = mb.operand hf 0 : tensor<4x4xbf16>
  %b = mb.operand hf 1 : tensor<2x4xbf16>
  %c = mb.concat %a, %b dim 0 : tensor<4x4xbf16>, tensor<2x4xbf16> -> tensor<6x4xbf16>
  mb.equate %m, %c : tensor<6x4xbf16>, tensor<6x4xbf16>
}

// EXPORT-LABEL: mb.rule @chain
// EXPORT: %[[S:.*]] = mb.slice %{{.*}} at [1, 0, 0] : tensor<2x3x4xf32> -> tensor<1x3x4xf32>
// EXPORT: %[[R:.*]] = mb.reshape %[[S]] : tensor<1x3x4xf32> -> tensor<3x4xf32>
// EXPORT: %[[T:.*]] = mb.transpose %[[R]] axes [1, 0]
// EXPORT: %[[A:.*]] = mb.add %[[T]], -1.000000e+00
// EXPORT: %[[H:.*]] = mb.scale %[[A]], 4.000000e+00
// EXPORT: mb.cast %[[H]] exact : tensor<4x3xf32> -> tensor<4x3xbf16>
mb.rule @chain shard <replicated, dim = 0> {
  %m = mb.operand megatron 0 : tensor<2x3x4xf32>
  %o = mb.operand hf 0 : tensor<3x4xf32>
  %a = mb.operand hf 1 : tensor<4x3xbf16>
  %x = mb.cast %a exact : tensor<4x3xbf16> -> tensor<4x3xf32>
  %h = mb.scale %x, 0.25 : tensor<4x3xf32>
  %p = mb.add %h, 1.0 : tensor<4x3xf32>
  %t = mb.transpose %p axes [1, 0] : tensor<4x3xf32> -> tensor<3x4xf32>
  %s = mb.stack %o, %t dim 0 : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<2x3x4xf32>
  mb.equate %m, %s : tensor<2x3x4xf32>, tensor<2x3x4xf32>
}

// The inverse of an order of axes need not be that order.

// EXPORT-LABEL: mb.rule @turned
// EXPORT: mb.transpose %{{.*}} axes [2, 0, 1] : tensor<3x4x2xf32> -> tensor<2x3x4xf32>
mb.rule @turned shard <replicated, dim = 0> {
  %m = mb.operand megatron 0 : tensor<3x4x2xf32>
  %a = mb.operand hf 0 : tensor<2x3x4xf32>
  %t = mb.transpose %a axes [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  mb.equate %m, %t : tensor<3x4x2xf32>, tensor<3x4x2xf32>
}

// The unknown side is a slice of the padded vocabulary: rows of zeros follow.

// IMPORT-LABEL: mb.rule @padded
// IMPORT: %[[F:.*]] = mb.fill 0.000000e+00 : tensor<3x4xbf16>
// IMPORT: mb.concat %{{.*}}, %[[F]] dim 0 : tensor<5x4xbf16>, tensor<3x4xbf16> -> tensor<8x4xbf16>
mb.rule @padded shard <vocab, dim = 0> {
  %m = mb.operand megatron 0 : tensor<8x4xbf16>
  %v = mb.slice %m at [0, 0] : tensor<8x4xbf16> -> tensor<5x4xbf16>
  %a = mb.operand hf 0 : tensor<5x4xbf16>
  mb.equate %v, %a : tensor<5x4xbf16>, tensor<5x4xbf16>
}

// The slices of a tensor make up the whole of it again.

// IMPORT-LABEL: mb.rule @pieces
// IMPORT: mb.slice %{{.*}} at [2, 0] : tensor<5x4xbf16> -> tensor<3x4xbf16>
// IMPORT: mb.slice %{{.*}} at [0, 0] : tensor<5x4xbf16> -> tensor<2x4xbf16>
// EXPORT-LABEL: mb.rule @pieces
// EXPORT: %[[M:.*]] = mb.operand megatron 0
// EXPORT: %[[LAST:.*]] = mb.slice %[[M]] at [0, 0] : tensor<5x4xbf16> -> tensor<3x4xbf16>
// EXPORT: %[[FIRST:.*]] = mb.slice %[[M]] at [3, 0] : tensor<5x4xbf16> -> tensor<2x4xbf16>
// EXPORT: %[[W:.*]] = mb.concat %[[FIRST]], %[[LAST]] dim 0
// EXPORT: mb.yield %[[W]] [#mb.target<0, rank 0, section 0, start[0, 0]>]
mb.rule @pieces shard <replicated, dim = 0> {
  %m = mb.operand megatron 0 : tensor<5x4xbf16>
  %a = mb.operand hf 0 : tensor<5x4xbf16>
  %u = mb.slice %a at [2, 0] : tensor<5x4xbf16> -> tensor<3x4xbf16>
  %v = mb.slice %a at [0, 0] : tensor<5x4xbf16> -> tensor<2x4xbf16>
  %c = mb.concat %u, %v dim 0 : tensor<3x4xbf16>, tensor<2x4xbf16> -> tensor<5x4xbf16>
  mb.equate %m, %c : tensor<5x4xbf16>, tensor<5x4xbf16>
}

// A rule that has a direction already is left alone.

// IMPORT-LABEL: mb.rule @done
// IMPORT: mb.operand megatron 0
mb.rule @done shard <replicated, dim = 0> {
  %m = mb.operand megatron 0 : tensor<4xbf16>
  mb.yield %m [#mb.target<0, rank 0, section 0, start [0]>] : tensor<4xbf16>
}
