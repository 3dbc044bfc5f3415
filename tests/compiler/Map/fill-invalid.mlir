// RUN: mbc-opt %s -split-input-file -verify-diagnostics

// C1: a number
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{needs a float or integer element type}}
  %c = mb.fill 0.0 : tensor<4xcomplex<f32>>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}
