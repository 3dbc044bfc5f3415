// RUN: mbc-opt %s -split-input-file -verify-diagnostics

// C1: a target for each value
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{has 0 targets for 1 values}}
  mb.yield %a [] : tensor<4x6xbf16>
}

// -----

// C2: last
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<2xbf16>
  // expected-error @+1 {{must be the last operation of its rule}}
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0]>] : tensor<2xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0]>] : tensor<2xbf16>
}
