// RUN: mbc-opt %s -split-input-file -verify-diagnostics

// C1: at least one part
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{needs at least one part}}
  %c = "mb.stack"() {dim = 0 : i64} : () -> tensor<4x6xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C2: dim below the rank
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{dim is 3, but the result has 3 dimensions}}
  %c = mb.stack %a dim 3 : tensor<4x6xbf16> -> tensor<1x4x6xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C3: one type
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %b = mb.operand hf 1 : tensor<2x6xbf16>
  // expected-error @+1 {{part 1 is 'tensor<2x6xbf16>', part 0 is 'tensor<4x6xbf16>'}}
  %c = mb.stack %a, %b dim 0 : tensor<4x6xbf16>, tensor<2x6xbf16> -> tensor<2x4x6xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C4: the extents of the whole
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{of 2 parts 'tensor<4x6xbf16>' along dimension 0 is not 'tensor<3x4x6xbf16>'}}
  %c = mb.stack %a, %a dim 0 : tensor<4x6xbf16>, tensor<4x6xbf16> -> tensor<3x4x6xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}
