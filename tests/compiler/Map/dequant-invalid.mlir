// RUN: mbc-opt %s -split-input-file -verify-diagnostics

// C1: a matrix of codes
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %s = mb.operand hf 1 scales : tensor<1x1xf32>
  // expected-error @+1 {{needs a matrix of codes (f8E4M3FN, ui4, si4) and a matrix of scales}}
  %c = mb.dequant %a, %s block [128, 128] : tensor<4x6xbf16>, tensor<1x1xf32> -> tensor<4x6xf32>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C2: positive blocks
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %w = mb.operand hf 1 : tensor<130x128xf8E4M3FN>
  %s = mb.operand hf 1 scales : tensor<2x1xf32>
  // expected-error @+1 {{needs two positive block extents}}
  %c = mb.dequant %w, %s block [0, 128] : tensor<130x128xf8E4M3FN>, tensor<2x1xf32> -> tensor<130x128xf32>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C2: a scale for each block
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %w = mb.operand hf 1 : tensor<130x128xf8E4M3FN>
  %s = mb.operand hf 1 scales : tensor<1x1xf32>
  // expected-error @+1 {{has 1 scales in dimension 0, but 130 codes in blocks of 128 need 2}}
  %c = mb.dequant %w, %s block [128, 128] : tensor<130x128xf8E4M3FN>, tensor<1x1xf32> -> tensor<130x128xf32>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C3: f32 of the same shape
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %w = mb.operand hf 1 : tensor<130x128xf8E4M3FN>
  %s = mb.operand hf 1 scales : tensor<2x1xf32>
  // expected-error @+1 {{gives f32 of the codes' shape, not 'tensor<130x128xbf16>'}}
  %c = mb.dequant %w, %s block [128, 128] : tensor<130x128xf8E4M3FN>, tensor<2x1xf32> -> tensor<130x128xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C4: one tensor scale
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %w = mb.operand hf 1 : tensor<2x64xui4>
  %s = mb.operand hf 1 scales : tensor<2x4xf8E4M3FN>
  %t = mb.operand hf 1 tensor_scale : tensor<1x2xf32>
  // expected-error @+1 {{has the tensor scale 'tensor<1x2xf32>', which is not one f32}}
  %c = mb.dequant %w, %s tensor_scale %t block [1, 16] : tensor<2x64xui4>, tensor<2x4xf8E4M3FN>, tensor<1x2xf32> -> tensor<2x64xf32>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C4: what divides
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %w = mb.operand hf 1 : tensor<2x64xui4>
  %s = mb.operand hf 1 scales : tensor<2x4xf8E4M3FN>
  // expected-error @+1 {{has no tensor scale that divides}}
  %c = mb.dequant %w, %s divides block [1, 16] : tensor<2x64xui4>, tensor<2x4xf8E4M3FN> -> tensor<2x64xf32>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}
