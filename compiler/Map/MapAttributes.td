#ifndef MBC_MAP_ATTRIBUTES
#define MBC_MAP_ATTRIBUTES

include "compiler/Map/MapDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Map_Side : I32EnumAttr<"Side", "checkpoint that a tensor belongs to", [
    I32EnumAttrCase<"Megatron", 0, "megatron">,
    I32EnumAttrCase<"Hf", 1, "hf">]> {
  let cppNamespace = "::mbc::map";
}

def Map_ShardKind : I32EnumAttr<"ShardKind", "how a tensor is cut over ranks", [
    I32EnumAttrCase<"Replicated", 0, "replicated">,
    I32EnumAttrCase<"Column", 1, "column">,
    I32EnumAttrCase<"Row", 2, "row">,
    I32EnumAttrCase<"Vocab", 3, "vocab">,
    I32EnumAttrCase<"Gated", 4, "gated">,
    I32EnumAttrCase<"Section", 5, "section">,
    I32EnumAttrCase<"Dim", 6, "dim">,
    I32EnumAttrCase<"ExpertRows", 7, "expert_rows">]> {
  let cppNamespace = "::mbc::map";
}

class Map_Attr<string name, string spelling> : AttrDef<Map_Dialect, name> {
  let mnemonic = spelling;
}

def Map_ShardAttr : Map_Attr<"Shard", "shard"> {
  let summary = "How the Megatron tensors of a rule are cut";
  let description = [{
    `dim` is the axis that is cut. `expert` tensors are cut over the expert
    tensor parallel ranks, `expert_rows` over the expert parallel ranks, all
    others over the tensor parallel ranks. `named`
    sections are tensors of their own, and their shards start within them.

    Example: `#mb.shard<column, dim = 0>`, `#mb.shard<row, dim = 1, expert = true>`.
  }];
  let parameters = (ins EnumParameter<Map_ShardKind>:$kind, "int64_t":$dim,
                        DefaultValuedParameter<"bool", "false">:$expert,
                        DefaultValuedParameter<"bool", "false">:$named);
  let assemblyFormat = [{
    `<` $kind `,` `dim` `=` $dim (`,` `expert` `=` $expert^)?
    (`,` `named` `=` $named^)? `>`
  }];
}

def Map_PlacementAttr : Map_Attr<"Placement", "placement"> {
  let summary = "The box of `shape` at `local` of a part is at `global` of the whole";
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$local,
                        OptionalArrayRefParameter<"int64_t">:$global,
                        OptionalArrayRefParameter<"int64_t">:$shape);
  let assemblyFormat = [{
    `<` `[` (`]`) : ($local^ `]`)? `to` `[` (`]`) : ($global^ `]`)?
    `shape` `[` (`]`) : ($shape^ `]`)? `>`
  }];
}

def Map_PartAttr : Map_Attr<"Part", "part"> {
  let summary = "A stored tensor that holds parts of an operand";
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$shape,
                        ArrayRefParameter<"::mbc::map::PlacementAttr">:$placements);
  let assemblyFormat = [{
    `<` `[` (`]`) : ($shape^ `]`)? `,` $placements `>`
  }];
}

def Map_TargetAttr : Map_Attr<"Target", "target"> {
  let summary = "Which stored tensor of the target a value is";
  let description = [{
    `start` is the value's first index in the whole tensor (of a named section:
    in the section's tensor).
  }];
  let parameters = (ins "int64_t":$operand, "int64_t":$rank, "int64_t":$section,
                        OptionalArrayRefParameter<"int64_t">:$start);
  let assemblyFormat = [{
    `<` $operand `,` `rank` $rank `,` `section` $section `,`
    `start` `[` (`]`) : ($start^ `]`)? `>`
  }];
}

def Map_BoxAttr : Map_Attr<"Box", "box"> {
  let summary = "One affine map from a box of an input to a box of the output";
  let description = [{
    Offsets and strides are in elements of the row-major tensors; `counts` are
    the box's extents, outermost first. Input -1 is the constant `fill`, given
    by its bits.

    Example: rows 4..8 of a 16-column input to the start of the output:
    `#mb.box<0 from 64 by [1] to 0 by [1] count [64]>`.
  }];
  let parameters = (ins "int64_t":$input, "int64_t":$sourceOffset,
                        OptionalArrayRefParameter<"int64_t">:$sourceStrides,
                        "int64_t":$targetOffset,
                        OptionalArrayRefParameter<"int64_t">:$targetStrides,
                        OptionalArrayRefParameter<"int64_t">:$counts,
                        DefaultValuedParameter<"uint64_t", "0">:$fill);
  let assemblyFormat = [{
    `<` $input `from` $sourceOffset `by` `[` (`]`) : ($sourceStrides^ `]`)?
    `to` $targetOffset `by` `[` (`]`) : ($targetStrides^ `]`)?
    `count` `[` (`]`) : ($counts^ `]`)? (`,` `fill` `=` $fill^)? `>`
  }];
}

#endif
