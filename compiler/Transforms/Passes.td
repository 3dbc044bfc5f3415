#ifndef MBC_TRANSFORMS_PASSES
#define MBC_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def MbOrient : Pass<"mb-orient", "::mlir::ModuleOp"> {
  let summary = "Turns each equation into a dataflow from source to target";
  let description = [{
    The side that is stored keeps its operations. The other side is inverted
    from the equated value down to its tensors: concat and stack become slices,
    a transpose its inverse permutation, an added constant is subtracted, a
    slice is padded with zeros. Constants on the target's side are dropped.

    Before: `mb.equate %megatron, %hf`. After: `mb.yield` of one value for each
    tensor of the target.
  }];
  let options = [Option<"direction", "direction", "std::string", "\"import\"",
                        "import: to Megatron; export: to Hugging Face">];
  let dependentDialects = ["::mbc::map::MapDialect"];
}

def MbAssemble : Pass<"mb-assemble", "::mlir::ModuleOp"> {
  let summary = "Puts operands that are stored in parts together";
  let description = [{
    Before: `mb.operand ... parts [...]`. After: one `mb.operand ... part k` for
    each stored tensor, joined by `mb.gather`.
  }];
  let dependentDialects = ["::mbc::map::MapDialect"];
}

def MbShard : Pass<"mb-shard", "::mlir::ModuleOp"> {
  let summary = "Cuts Megatron targets into the tensors that ranks store";
  let description = [{
    Each value that is yielded to Megatron becomes slices, one for each rank
    and section, as the rule's shard says. With `join` the sections of a rank
    are one tensor, as per-rank files hold them. An extent that does not divide
    by the number of ranks is an error, but for rows that are dealt out over the
    expert ranks: there a rank may have one more than another, or none. Rules
    with Hugging Face targets are left alone.
  }];
  let options = [Option<"tp", "tp", "int64_t", "1", "tensor parallel ranks">,
                 Option<"etp", "etp", "int64_t", "1",
                        "expert tensor parallel ranks">,
                 Option<"ep", "ep", "int64_t", "1", "expert parallel ranks">,
                 Option<"join", "join", "bool", "false",
                        "join the sections of a rank">];
  let dependentDialects = ["::mbc::map::MapDialect"];
}

def MbFuse : Pass<"mb-fuse", "::mlir::ModuleOp"> {
  let summary = "Composes everything that leads to an output into one operation";
  let description = [{
    Index maps are composed exactly as boxes, and what happens to an element
    becomes the body of an `mb.fused`. All inputs of an output must go through
    the same steps, since an output has one kernel. Boxes of block-scaled
    inputs step within a row of the weight or over whole rows.
  }];
  let dependentDialects = ["::mbc::map::MapDialect", "::mlir::arith::ArithDialect"];
}

def MbClassify : Pass<"mb-classify", "::mlir::ModuleOp"> {
  let summary = "Names the kernel class of each fused operation with a body";
  let description = [{
    The class is the chain of operations with its types and constants only, so
    that all ranks and shapes share a kernel. Pure movement gets no kernel.
  }];
}

def MbVerifyFused : Pass<"mb-verify-fused", "::mlir::ModuleOp"> {
  let summary = "Closes the tensor graph's phase";
  let description = [{
    Fails unless each rule holds operands, fused operations and its yield only,
    and the boxes of each fused operation stay inside their inputs and write
    each element of the output exactly once.
  }];
}

#endif
