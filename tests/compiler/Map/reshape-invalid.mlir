// RUN: mbc-opt %s -split-input-file -verify-diagnostics

// C1: equal numbers of elements
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{turns 24 elements into 25}}
  %c = mb.reshape %a : tensor<4x6xbf16> -> tensor<25xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C2: equal element types
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{joins element types 'bf16' and 'f32'}}
  %c = mb.reshape %a : tensor<4x6xbf16> -> tensor<24xf32>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}
