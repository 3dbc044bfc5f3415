// RUN: mbc-opt %s -mb-verify-fused -split-input-file -verify-diagnostics

mb.rule @whole shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4xbf16>
  %f = mb.fused (%a) [#mb.box<0 from 0 by [1] to 0 by [1] count [4]>] : (tensor<4xbf16>) -> tensor<4xbf16> {}
  mb.yield %f [#mb.target<0, rank 0, section 0, start [0]>] : tensor<4xbf16>
}

// -----

mb.rule @gap shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4xbf16>
  // expected-error @+1 {{3 of 4 elements are written, element 3 is not}}
  %f = mb.fused (%a) [#mb.box<0 from 0 by [1] to 0 by [1] count [3]>] : (tensor<4xbf16>) -> tensor<4xbf16> {}
  mb.yield %f [#mb.target<0, rank 0, section 0, start [0]>] : tensor<4xbf16>
}

// -----

mb.rule @outside shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4xbf16>
  // expected-error @+1 {{a box reads elements 1 to 4 of an input with 4}}
  %f = mb.fused (%a) [#mb.box<0 from 1 by [1] to 0 by [1] count [4]>] : (tensor<4xbf16>) -> tensor<4xbf16> {}
  mb.yield %f [#mb.target<0, rank 0, section 0, start [0]>] : tensor<4xbf16>
}

// -----

mb.rule @left shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4xbf16>
  // expected-error @+1 {{is left after fusion}}
  %b = mb.reshape %a : tensor<4xbf16> -> tensor<2x2xbf16>
  mb.yield %b [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<2x2xbf16>
}
