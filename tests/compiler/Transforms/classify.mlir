// RUN: mbc-opt %s "-mb-compile=direction=import tp=2" | FileCheck %s

// Both ranks, and another shape, share a kernel; movement has none.

// CHECK-LABEL: mb.rule @first
// CHECK-COUNT-2: kernel "mbc_bf16_f32_add_3F800000_bf16"
mb.rule @first shard <column, dim = 0> {
  %m = mb.operand megatron 0 : tensor<4xbf16>
  %a = mb.operand hf 0 : tensor<4xbf16>
  %p = mb.add %a, 1.0 : tensor<4xbf16>
  mb.equate %m, %p : tensor<4xbf16>, tensor<4xbf16>
}

// CHECK-LABEL: mb.rule @second
// CHECK: kernel "mbc_bf16_f32_add_3F800000_bf16"
mb.rule @second shard <replicated, dim = 0> {
  %m = mb.operand megatron 0 : tensor<7xbf16>
  %a = mb.operand hf 0 : tensor<7xbf16>
  %p = mb.add %a, 1.0 : tensor<7xbf16>
  mb.equate %m, %p : tensor<7xbf16>, tensor<7xbf16>
}

// CHECK-LABEL: mb.rule @movement
// CHECK-NOT: kernel
mb.rule @movement shard <replicated, dim = 0> {
  %m = mb.operand megatron 0 : tensor<7xbf16>
  %a = mb.operand hf 0 : tensor<7xbf16>
  mb.equate %m, %a : tensor<7xbf16>, tensor<7xbf16>
}
