// RUN: mbc-opt %s -split-input-file -verify-diagnostics

// C1: the last operation
// expected-error @+1 {{body must end in 'mb.equate' or 'mb.yield'}}
mb.rule @r shard <replicated, dim = 0> {
  %a = mb.operand hf 0 : tensor<4xbf16>
}

// -----

// C2: sections for each Megatron operand
// expected-error @+1 {{has section lists for 2 operands, there are 1}}
mb.rule @r shard <section, dim = 0> sections [array<i64: 4>, array<i64: 4>] {
  %a = mb.operand hf 0 : tensor<4xbf16>
  %m = mb.operand megatron 0 : tensor<4xbf16>
  mb.equate %m, %a : tensor<4xbf16>, tensor<4xbf16>
}
