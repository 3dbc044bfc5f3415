// RUN: mbc-opt %s -split-input-file -verify-diagnostics

// C1: at least one part
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{needs at least one part}}
  %c = "mb.concat"() {dim = 0 : i64} : () -> tensor<4x6xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C2: dim below the rank
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{dim is 2, but the result has 2 dimensions}}
  %c = mb.concat %a dim 2 : tensor<4x6xbf16> -> tensor<4x6xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C3: equal ranks
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{part 0 has 2 dimensions, the result 1}}
  %c = mb.concat %a dim 0 : tensor<4x6xbf16> -> tensor<24xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C3: equal element types
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %f = mb.operand hf 1 : tensor<2x6xf32>
  // expected-error @+1 {{joins element types 'f32' and 'bf16'}}
  %c = mb.concat %a, %f dim 0 : tensor<4x6xbf16>, tensor<2x6xf32> -> tensor<6x6xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C4: other dimensions agree
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %b = mb.operand hf 1 : tensor<2x6xbf16>
  // expected-error @+1 {{part 1 is 2 wide in dimension 0, the result is 4}}
  %c = mb.concat %a, %b dim 1 : tensor<4x6xbf16>, tensor<2x6xbf16> -> tensor<4x12xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C5: the parts add up
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %b = mb.operand hf 1 : tensor<2x6xbf16>
  // expected-error @+1 {{parts add up to 6 in dimension 0, the result is 7}}
  %c = mb.concat %a, %b dim 0 : tensor<4x6xbf16>, tensor<2x6xbf16> -> tensor<7x6xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}
