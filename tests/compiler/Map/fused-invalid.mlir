// RUN: mbc-opt %s -split-input-file -verify-diagnostics

// C1: scales for each input
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %s = mb.operand hf 1 scales : tensor<1x1xf32>
  // expected-error @+1 {{has 1 scales for 2 inputs}}
  %c = mb.fused (%a, %a) scales (%s) block [1, 1] [] : (tensor<4x6xbf16>, tensor<4x6xbf16>, tensor<1x1xf32>) -> tensor<4xbf16> {}
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C2: the body returns the element
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{body must return 'f32'}}
  %c = mb.fused (%a) [] : (tensor<4x6xbf16>) -> tensor<4xf32> {
  ^bb0(%x: bf16):
    mb.return %x : bf16
  }
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C2: an argument for an element
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{body has 2 arguments instead of 1}}
  %c = mb.fused (%a) [] : (tensor<4x6xbf16>) -> tensor<4xbf16> {
  ^bb0(%x: bf16, %y: f32):
    mb.return %x : bf16
  }
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C3: a known input
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{has a malformed box}}
  %c = mb.fused (%a) [#mb.box<1 from 0 by [] to 0 by [] count []>] : (tensor<4x6xbf16>) -> tensor<4xbf16> {}
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C3: lists of one length
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  // expected-error @+1 {{has a malformed box}}
  %c = mb.fused (%a) [#mb.box<0 from 0 by [] to 0 by [1] count [2]>] : (tensor<4x6xbf16>) -> tensor<4xbf16> {}
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}

// -----

// C4: a block only with scales
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4xbf16>
  // expected-error @+1 {{needs a block exactly if it has scales}}
  %c = "mb.fused"(%a) <{boxes = [], block = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0>}> ({}) : (tensor<4xbf16>) -> tensor<4xbf16>
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0]>] : tensor<4xbf16>
}

// -----

// convert C1: one of the types is f32
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4xbf16>
  %c = mb.fused (%a) [] : (tensor<4xbf16>) -> tensor<4xf16> {
  ^bb0(%x: bf16):
    // expected-error @+1 {{does not know how to turn 'bf16' into 'f16'}}
    %y = mb.convert %x : bf16 -> f16
    mb.return %y : f16
  }
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0]>] : tensor<4xbf16>
}

// -----

// C1: a tensor scale for each input that has scales
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4x6xbf16>
  %t = mb.operand hf 1 tensor_scale : tensor<1x1xf32>
  // expected-error @+1 {{has 1 tensor scales for 0 scales}}
  %c = mb.fused (%a) tensor_scales (%t) [] : (tensor<4x6xbf16>, tensor<1x1xf32>) -> tensor<4xbf16> {}
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<4x6xbf16>
}
