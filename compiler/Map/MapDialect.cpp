#include "compiler/Map/MapOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "compiler/Map/MapDialect.cpp.inc"
#include "compiler/Map/MapEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/Map/MapAttributes.cpp.inc"

namespace mbc::map {

void MapDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/Map/MapAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/Map/MapOps.cpp.inc"
      >();
}

} // namespace mbc::map
