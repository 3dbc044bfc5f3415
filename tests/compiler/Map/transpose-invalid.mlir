// RUN: mbc-opt %s -split-input-file -verify-diagnostics

// C1: a permutation
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{axes are no permutation of 2 axes}}
  %c = mb.transpose %a axes [0, 0] : tensor<4x6xbf16> -> tensor<4x4xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C2: permuted extents
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{dimension 0 should be 6}}
  %c = mb.transpose %a axes [1, 0] : tensor<4x6xbf16> -> tensor<4x6xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C3: equal element types
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{joins element types 'bf16' and 'f32'}}
  %c = mb.transpose %a axes [1, 0] : tensor<4x6xbf16> -> tensor<6x4xf32>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}
