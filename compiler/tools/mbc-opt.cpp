#include "compiler/Codegen/GpuCompile.h"
#include "compiler/Map/MapOps.h"
#include "compiler/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

/// Runs the passes of the tensor graph on .mlir files, for tests.
int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mbc::map::MapDialect, mlir::arith::ArithDialect>();
  mbc::compiler::registerGraphPasses();
  mbc::compiler::registerGpuPass();
  mlir::registerCanonicalizerPass();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "mbc tensor graph driver\n", registry));
}
