// RUN: mbc-opt %s -split-input-file -verify-diagnostics

// C1: a placement inside its part and the whole
mb.rule @r shard <replicated, dim = 0> {
  // expected-error @+1 {{has a placement that ends at 2 of 2 in its part and at 5 of 4 in the whole, dimension 0}}
  %a = mb.operand hf 0 parts [#mb.part<[2], <[0] to [3] shape [2]>>] : tensor<4xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0]>] : tensor<4xbf16>
}
