// RUN: mbc-opt %s -mb-orient=direction=export -split-input-file -verify-diagnostics

mb.rule @third shard <replicated, dim = 0> {
  %m = mb.operand megatron 0 : tensor<4xf32>
  %a = mb.operand hf 0 : tensor<4xf32>
  // expected-error @+1 {{by 3.000000e+00 cannot be undone exactly; only powers of two can}}
  %b = mb.scale %a, 3.0 : tensor<4xf32>
  mb.equate %m, %b : tensor<4xf32>, tensor<4xf32>
}

// -----

mb.rule @quantised shard <replicated, dim = 0> {
  %m = mb.operand megatron 0 : tensor<4x4xf32>
  %w = mb.operand hf 0 : tensor<4x4xf8E4M3FN>
  %s = mb.operand hf 0 scales : tensor<1x1xf32>
  // expected-error @+1 {{has no inverse: the target would have to be quantised}}
  %d = mb.dequant %w, %s block [128, 128] : tensor<4x4xf8E4M3FN>, tensor<1x1xf32> -> tensor<4x4xf32>
  mb.equate %m, %d : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

mb.rule @gap shard <replicated, dim = 0> {
  %m = mb.operand megatron 0 : tensor<4x4xf32>
  %a = mb.operand hf 0 : tensor<5x4xf32>
  %u = mb.slice %a at [0, 0] : tensor<5x4xf32> -> tensor<2x4xf32>
  // expected-error @+1 {{and the others of its tensor are not the whole 'tensor<5x4xf32>', each part once}}
  %v = mb.slice %a at [3, 0] : tensor<5x4xf32> -> tensor<2x4xf32>
  %c = mb.concat %u, %v dim 0 : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<4x4xf32>
  mb.equate %m, %c : tensor<4x4xf32>, tensor<4x4xf32>
}
