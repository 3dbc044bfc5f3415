// RUN: mbc-opt %s -mb-fuse -split-input-file -verify-diagnostics

mb.rule @mixed shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<2xf32>
  %b = mb.operand hf 1 : tensor<2xbf16>
  %x = mb.cast %a : tensor<2xf32> -> tensor<2xbf16>
  // expected-error @+1 {{the tensors of one output must have one number format and go through the same steps}}
  %c = mb.concat %x, %b dim 0 : tensor<2xbf16>, tensor<2xbf16> -> tensor<4xbf16>
  mb.yield %c [#mb.target<0, rank 0, section 0, start [0]>] : tensor<4xbf16>
}

// -----

// expected-error @+1 {{has no direction yet: run mb-orient first}}
mb.rule @equation shard <replicated, dim = 0> {
  %m = mb.operand megatron 0 : tensor<2xf32>
  %a = mb.operand hf 0 : tensor<2xf32>
  mb.equate %m, %a : tensor<2xf32>, tensor<2xf32>
}
