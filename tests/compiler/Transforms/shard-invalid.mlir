// RUN: mbc-opt %s -mb-shard=tp=4 -split-input-file -verify-diagnostics

mb.rule @column shard <column, dim = 0> {
  %a = mb.operand hf 0 : tensor<6x2xbf16>
  // expected-error @+1 {{extent 6 of dimension 0 does not divide by --tp 4}}
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<6x2xbf16>
}

// -----

mb.rule @sections shard <section, dim = 0> sections [array<i64: 4, 8>] {
  %a = mb.operand hf 0 : tensor<16xbf16>
  // expected-error @+1 {{the shard's sections add up to 12 rows, the tensor has 16}}
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0]>] : tensor<16xbf16>
}

// -----

mb.rule @scalar shard <expert_rows, dim = 0> {
  %a = mb.operand hf 0 : tensor<bf16>
  // expected-error @+1 {{the shard cuts dimension 0, but the tensor has 0 dimensions}}
  mb.yield %a [#mb.target<0, rank 0, section 0, start []>] : tensor<bf16>
}

// -----

mb.rule @vector shard <row, dim = 1> {
  %a = mb.operand hf 0 : tensor<8xbf16>
  // expected-error @+1 {{the shard cuts dimension 1, but the tensor has 1 dimensions}}
  mb.yield %a [#mb.target<0, rank 0, section 0, start [0]>] : tensor<8xbf16>
}
