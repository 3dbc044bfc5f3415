// RUN: mbc-opt %s -split-input-file -verify-diagnostics

// C1: equal shapes
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %b = mb.operand hf 1 : tensor<2x6xbf16>
  // expected-error @+1 {{sides differ in shape: Megatron's is 'tensor<4x6xbf16>', Hugging Face's is 'tensor<2x6xbf16>'}}
  mb.equate %a, %b : tensor<4x6xbf16>, tensor<2x6xbf16>
}

// -----

// C2: equal element types
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %f = mb.operand hf 1 : tensor<4x6xf32>
  // expected-error @+1 {{joins element types 'bf16' and 'f32'}}
  mb.equate %a, %f : tensor<4x6xbf16>, tensor<4x6xf32>
}

// -----

// C3: last
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{must be the last operation of its rule}}
  mb.equate %a, %a : tensor<4x6xbf16>, tensor<4x6xbf16>
  %b = mb.operand hf 0 : tensor<4x6xbf16>
  mb.equate %a, %b : tensor<4x6xbf16>, tensor<4x6xbf16>
}
