// RUN: mbc-opt %s -split-input-file -verify-diagnostics

// C1: equal ranks
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{has a start of rank 1 and a result of rank 2 in a tensor of rank 2}}
  %c = mb.slice %a at [0] : tensor<4x6xbf16> -> tensor<2x6xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C2: inside
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{takes 3 to 5 of 4 in dimension 0}}
  %c = mb.slice %a at [3, 0] : tensor<4x6xbf16> -> tensor<2x6xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C3: equal element types
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{joins element types 'bf16' and 'f32'}}
  %c = mb.slice %a at [0, 0] : tensor<4x6xbf16> -> tensor<2x6xf32>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}
