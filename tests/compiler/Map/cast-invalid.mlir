// RUN: mbc-opt %s -split-input-file -verify-diagnostics

// C1: a known format
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %i = mb.operand hf 1 : tensor<4xi32>
  // expected-error @+1 {{does not know how to turn 'i32' into 'bf16'}}
  %c = mb.cast %i : tensor<4xi32> -> tensor<4xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C1: no cast to f8
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{does not know how to turn 'bf16' into 'f8E4M3FN'}}
  %c = mb.cast %a : tensor<4x6xbf16> -> tensor<4x6xf8E4M3FN>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}
