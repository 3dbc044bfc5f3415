// RUN: mbc-opt %s -split-input-file -verify-diagnostics

// C1: f32, f16 or bf16
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %i = mb.operand hf 1 : tensor<4xi32>
  // expected-error @+1 {{cannot compute in 'i32', only in f32, f16 and bf16}}
  %c = mb.add %i, 1.0 : tensor<4xi32>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C2: finite
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{needs a finite constant}}
  %c = mb.add %a, 0x7FF0000000000000 : tensor<4x6xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}
