#ifndef MBC_MAP_DIALECT
#define MBC_MAP_DIALECT

include "mlir/IR/OpBase.td"

def Map_Dialect : Dialect {
  let name = "mb";
  let cppNamespace = "::mbc::map";
  let summary = "Mappings between the tensors of two checkpoints";
  let description = [{
    A rule says that two expressions over stored tensors are the same tensor.
    Once a direction is chosen it is a dataflow from the source's tensors to
    the target's, then to the target's shards, and at last one fused operation
    a shard. Values are statically shaped tensors; nothing here knows names,
    files, instances or devices.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif
