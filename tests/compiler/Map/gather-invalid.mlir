// RUN: mbc-opt %s -split-input-file -verify-diagnostics

// C1: a part for each value
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{has 0 part lists for 1 values}}
  %c = mb.gather %a [] : tensor<4x6xbf16> -> tensor<4x6xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C1: the shape of the value
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{part 0 does not have the shape of 'tensor<4x6xbf16>'}}
  %c = mb.gather %a [#mb.part<[2, 6], <[0, 0] to [0, 0] shape [2, 6]>>] : tensor<4x6xbf16> -> tensor<4x6xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C2: the rank of the whole
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{has a placement of rank 1 in a tensor of rank 2}}
  %c = mb.gather %a [#mb.part<[4, 6], <[0] to [0] shape [4]>>] : tensor<4x6xbf16> -> tensor<4x6xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C3: equal element types
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{joins element types 'bf16' and 'f32'}}
  %c = mb.gather %a [#mb.part<[4, 6], <[0, 0] to [0, 0] shape [4, 6]>>] : tensor<4x6xbf16> -> tensor<4x6xf32>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}
