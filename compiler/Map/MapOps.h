#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "compiler/Map/MapDialect.h.inc"
#include "compiler/Map/MapEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/Map/MapAttributes.h.inc"

#define GET_OP_CLASSES
#include "compiler/Map/MapOps.h.inc"
