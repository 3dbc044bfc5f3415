#ifndef MBC_MAP_OPS
#define MBC_MAP_OPS

include "compiler/Map/MapAttributes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Map_Op<string mnemonic, list<Trait> traits = []>
    : Op<Map_Dialect, mnemonic, traits>;

def Map_Tensor : StaticShapeTensorOf<[AnyType]>;

//===----------------------------------------------------------------------===//
// A rule and what it reads and gives
//===----------------------------------------------------------------------===//

def Map_RuleOp : Map_Op<"rule", [Symbol, IsolatedFromAbove, SingleBlock, NoTerminator]> {
  let summary = "All instances of a rule with equal types";
  let description = [{
    Its body ends in `mb.equate` while it is an equation and in `mb.yield` once
    it is a dataflow.

    - C1: the body ends in `mb.equate` or `mb.yield`.
    - C2: `sections` has one list for each Megatron operand, or is empty.

    ```mlir
    mb.rule @fc2 shard #mb.shard<row, dim = 1> {
      %0 = mb.operand megatron 0 : tensor<8x16xbf16>
      %1 = mb.operand hf 0 : tensor<8x16xbf16>
      mb.equate %0, %1 : tensor<8x16xbf16>, tensor<8x16xbf16>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Map_ShardAttr:$shard,
                       DefaultValuedAttr<ArrayAttr, "{}">:$sections,
                       OptionalAttr<StrAttr>:$label);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `shard` $shard (`sections` $sections^)? (`label` $label^)?
    attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
}

def Map_OperandOp : Map_Op<"operand", [Pure]> {
  let summary = "A tensor of a checkpoint";
  let description = [{
    Operand `ordinal` of a side, its block scales (`scales`), the scale of
    those (`tensor_scale`), or the stored tensor `part` of it. `parts` lists the stored tensors of an operand that is
    not stored whole.

    - C1: each part's placements have the rank of the operand and stay inside
      both.

    Example: `%0 = mb.operand hf 0 : tensor<8x16xbf16>`
  }];
  let arguments = (ins Map_Side:$side, I64Attr:$ordinal, UnitAttr:$scales,
                       UnitAttr:$tensorScale, OptionalAttr<I64Attr>:$part,
                       OptionalAttr<ArrayAttr>:$parts);
  let results = (outs Map_Tensor:$result);
  let assemblyFormat = [{
    $side $ordinal (`scales` $scales^)? (`tensor_scale` $tensorScale^)?
    (`part` $part^)? (`parts` $parts^)?
    attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def Map_EquateOp : Map_Op<"equate"> {
  let summary = "The two sides of a rule are the same tensor";
  let description = [{
    - C1: both sides have the same shape.
    - C2: both sides have the same element type.
    - C3: it is the last operation of an `mb.rule`.
  }];
  let arguments = (ins Map_Tensor:$megatron, Map_Tensor:$hf);
  let assemblyFormat = "$megatron `,` $hf attr-dict `:` type($megatron) `,` type($hf)";
  let hasVerifier = 1;
}

def Map_YieldOp : Map_Op<"yield"> {
  let summary = "The tensors that a rule gives to the target";
  let description = [{
    - C1: there is one target for each value.
    - C2: it is the last operation of an `mb.rule`.

    Example: `mb.yield %0 [#mb.target<0, rank 0, section 0, start [0, 0]>] : tensor<8x16xbf16>`
  }];
  let arguments = (ins Variadic<Map_Tensor>:$values, ArrayAttr:$targets);
  let assemblyFormat = "$values $targets attr-dict `:` type($values)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Whole tensors
//===----------------------------------------------------------------------===//

def Map_FillOp : Map_Op<"fill", [Pure]> {
  let summary = "A tensor that is the same everywhere";
  let description = [{
    - C1: the element type is a float or an integer type.

    Example: `%0 = mb.fill 0.0 : tensor<2x16xbf16>`
  }];
  let arguments = (ins F64Attr:$value);
  let results = (outs Map_Tensor:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Map_ConcatOp : Map_Op<"concat", [Pure]> {
  let summary = "Joins tensors along one axis";
  let description = [{
    The parts appear in `whole` in the order given.

    - C1: there is at least one part.
    - C2: `0 <= dim < rank(whole)`.
    - C3: every part has the rank and the element type of `whole`.
    - C4: apart from `dim`, part and whole agree on every dimension.
    - C5: along `dim`, the parts add up to the whole.

    Example: `%2 = mb.concat %0, %1 dim 0 : tensor<2x4xf32>, tensor<3x4xf32> -> tensor<5x4xf32>`
  }];
  let arguments = (ins Variadic<Map_Tensor>:$parts, I64Attr:$dim);
  let results = (outs Map_Tensor:$whole);
  let assemblyFormat = "$parts `dim` $dim attr-dict `:` type($parts) `->` type($whole)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Map_StackOp : Map_Op<"stack", [Pure]> {
  let summary = "Joins tensors along a new axis";
  let description = [{
    - C1: there is at least one part.
    - C2: `0 <= dim < rank(whole)`.
    - C3: all parts have one type, and the element type of `whole`.
    - C4: `whole` has the parts' extents, and the number of parts at `dim`.

    Example: `%2 = mb.stack %0, %1 dim 0 : tensor<4xf32>, tensor<4xf32> -> tensor<2x4xf32>`
  }];
  let arguments = (ins Variadic<Map_Tensor>:$parts, I64Attr:$dim);
  let results = (outs Map_Tensor:$whole);
  let assemblyFormat = "$parts `dim` $dim attr-dict `:` type($parts) `->` type($whole)";
  let hasVerifier = 1;
}

def Map_SliceOp : Map_Op<"slice", [Pure]> {
  let summary = "A box of a tensor";
  let description = [{
    - C1: `start` has the rank of `whole` and of the result.
    - C2: the result lies inside `whole` in every dimension.
    - C3: the element types are equal.

    Example: `%1 = mb.slice %0 at [2, 0] : tensor<8x4xf32> -> tensor<2x4xf32>`
  }];
  let arguments = (ins Map_Tensor:$whole, DenseI64ArrayAttr:$start);
  let results = (outs Map_Tensor:$result);
  let assemblyFormat = "$whole `at` $start attr-dict `:` type($whole) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Map_ReshapeOp : Map_Op<"reshape", [Pure]> {
  let summary = "The same elements in row-major order, with other extents";
  let description = [{
    - C1: both sides have the same number of elements.
    - C2: the element types are equal.

    Example: `%1 = mb.reshape %0 : tensor<8x4xf32> -> tensor<2x4x4xf32>`
  }];
  let arguments = (ins Map_Tensor:$input);
  let results = (outs Map_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Map_TransposeOp : Map_Op<"transpose", [Pure]> {
  let summary = "Axes in another order: axis i of the result is axis `axes[i]`";
  let description = [{
    - C1: `axes` is a permutation of the input's axes.
    - C2: dimension i of the result is dimension `axes[i]` of the input.
    - C3: the element types are equal.

    Example: `%1 = mb.transpose %0 axes [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>`
  }];
  let arguments = (ins Map_Tensor:$input, DenseI64ArrayAttr:$axes);
  let results = (outs Map_Tensor:$result);
  let assemblyFormat = "$input `axes` $axes attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Map_GatherOp : Map_Op<"gather", [Pure]> {
  let summary = "A tensor put together from stored parts";
  let description = [{
    - C1: there is one part attribute for each value, with its shape.
    - C2: every placement has the rank of `whole` and stays inside it and
      inside its part.
    - C3: the element types are equal.

    Example:
    ```mlir
    %2 = mb.gather %0, %1 [#mb.part<[2], #mb.placement<[0] to [0] shape [2]>>,
                           #mb.part<[2], #mb.placement<[0] to [2] shape [2]>>]
       : tensor<2xf32>, tensor<2xf32> -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Variadic<Map_Tensor>:$values, ArrayAttr:$parts);
  let results = (outs Map_Tensor:$whole);
  let assemblyFormat = "$values $parts attr-dict `:` type($values) `->` type($whole)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Values of elements
//===----------------------------------------------------------------------===//

class Map_ConstantOp<string mnemonic, string text> : Map_Op<mnemonic, [Pure, SameOperandsAndResultType]> {
  let summary = text;
  let description = [{
    Computed in f32 and rounded to the element type.

    - C1: the element type is f32, f16 or bf16.
    - C2: the constant is finite (and not zero for a factor).
  }];
  let arguments = (ins Map_Tensor:$input, F64Attr:$value);
  let results = (outs Map_Tensor:$result);
  let assemblyFormat = "$input `,` $value attr-dict `:` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}
def Map_AddOp : Map_ConstantOp<"add", "Adds a constant to every element">;
def Map_ScaleOp : Map_ConstantOp<"scale", "Multiplies every element by a constant">;

def Map_CastOp : Map_Op<"cast", [Pure, SameOperandsAndResultShape]> {
  let summary = "The same values in another element type";
  let description = [{
    Rounds to nearest even. With `exact`, a value that the new type cannot hold
    is an error when it runs.

    - C1: both element types are number formats that a cast knows: f32, f16,
      bf16, and f8E4M3FN as input.

    Example: `%1 = mb.cast %0 exact : tensor<4xf32> -> tensor<4xbf16>`
  }];
  let arguments = (ins Map_Tensor:$input, UnitAttr:$exact);
  let results = (outs Map_Tensor:$result);
  let assemblyFormat = "$input (`exact` $exact^)? attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Map_DequantOp : Map_Op<"dequant", [Pure]> {
  let summary = "The values of a block-quantised weight";
  let description = [{
    Element (i, j) is the code's value times `scales[i / block[0], j / block[1]]`,
    which is first multiplied by `tensor_scale` or, with `divides`, divided by it.
    All of that is in f32, each product rounded.
    Formats that MLIR 19 has no type for are integers of their width: ui4 is FP4
    E2M1, si4 a number stored plus 8, si8 the scale E8M0.

    - C1: `codes` is a matrix of f8E4M3FN, ui4 or si4, `scales` a matrix of f32,
      bf16, f16, si8 or f8E4M3FN.
    - C2: the block's extents are positive and `scales` has one element for
      each block, ragged ones included.
    - C3: the result is f32 with the shape of `codes`.
    - C4: `tensor_scale` is one f32; `divides` needs one.

    Example:
    `%2 = mb.dequant %0, %1 block [128, 128] : tensor<130x128xf8E4M3FN>, tensor<2x1xf32> -> tensor<130x128xf32>`
  }];
  let arguments = (ins Map_Tensor:$codes, Map_Tensor:$scales,
                       Optional<Map_Tensor>:$tensorScale, UnitAttr:$divides,
                       DenseI64ArrayAttr:$block);
  let results = (outs Map_Tensor:$result);
  let assemblyFormat = [{
    $codes `,` $scales (`tensor_scale` $tensorScale^)? (`divides` $divides^)?
    `block` $block attr-dict
    `:` type($codes) `,` type($scales) (`,` type($tensorScale)^)? `->` type($result)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Fused
//===----------------------------------------------------------------------===//

def Map_FusedOp : Map_Op<"fused", [Pure, IsolatedFromAbove, AttrSizedOperandSegments]> {
  let summary = "One output shard, read from its inputs by boxes";
  let description = [{
    `boxes` say which element of which input (an index into `inputs`) each
    element of the result comes from, the body what becomes of it: it gets an
    element of the input and, if there are any, its block's scale and the
    tensor's scale. An empty body moves the element as it is. `kernel` names the
    body's class.

    - C1: there are no scales, or one tensor of scales for each input; the same
      of tensor scales, which need scales.
    - C2: the body is empty, or has one argument for an element, one for its
      scale and one for its tensor scale (as far as there are such), and ends
      in `mb.return` of the result's element type.
    - C3: each box names an input or -1, and its three lists have one length.
    - C4: `block` is there exactly if there are scales.
  }];
  let arguments = (ins Variadic<Map_Tensor>:$inputs, Variadic<Map_Tensor>:$scales,
                       Variadic<Map_Tensor>:$tensorScales, ArrayAttr:$boxes, OptionalAttr<DenseI64ArrayAttr>:$block,
                       OptionalAttr<StrAttr>:$kernel);
  let results = (outs Map_Tensor:$result);
  let regions = (region MaxSizedRegion<1>:$body);
  let assemblyFormat = [{
    `(` $inputs `)` (`scales` `(` $scales^ `)` `block` $block)?
    (`tensor_scales` `(` $tensorScales^ `)`)? (`kernel` $kernel^)?
    $boxes attr-dict `:` functional-type(operands, $result) $body
  }];
  let hasVerifier = 1;
}

def Map_ReturnOp : Map_Op<"return", [Pure, Terminator, HasParent<"FusedOp">]> {
  let summary = "The element that a fused body gives";
  let arguments = (ins AnyType:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def Map_ConvertOp : Map_Op<"convert", [Pure]> {
  let summary = "One element (or a vector of them) in another number format";
  let description = [{
    One of the two types is f32. Widening is exact; narrowing rounds to nearest
    even, a NaN becomes the quiet NaN 0x7FC0 (bf16) or 0x7E00 (f16). With
    `exact`, a narrowing that loses bits is an error when it runs. Targets give
    this operation its instructions.

    - C1: one type is f32, the other bf16, f16 or, as input only, f8E4M3FN, ui4,
      si4 or si8 (as in `mb.dequant`).
  }];
  let arguments = (ins AnyType:$input, UnitAttr:$exact);
  let results = (outs AnyFloat:$result);
  let assemblyFormat = "$input (`exact` $exact^)? attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

#endif
