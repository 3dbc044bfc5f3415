#pragma once

#include "runtime/DeviceTable.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

namespace mbc::compiler {

/// A kernel that is launched over an instance table: from the block's number
/// to its row of the table, and to the rows and columns of its threads.
class GpuTable {
public:
  GpuTable(mlir::OpBuilder &builder, mlir::Location location)
      : builder(builder), location(location) {}

  /// Opens the function and finds the block's row of the table.
  void open(llvm::StringRef name, uint32_t blockThreads);
  /// Closes it.
  void close();
  /// The tiles of the block's row, `width` elements a thread: sets
  /// `firstRow`, `rowStep` and `column`.
  void placeThread(uint32_t width);

  mlir::Value field(size_t offset, mlir::Type type);
  mlir::Value field32(size_t offset) {
    return field(offset, builder.getI32Type());
  }
  mlir::Value field64(size_t offset) {
    return field(offset, builder.getI64Type());
  }
  /// A device address that a field holds.
  mlir::Value address(size_t offset);
  /// `index / d`, with `d` as the fields from `offset` on hold it.
  mlir::Value divide(mlir::Value index, size_t offset);

  mlir::Value number(int64_t value, unsigned bits = 32);
  mlir::Value wide(mlir::Value value); ///< as i64
  template <typename Op> mlir::Value op(mlir::Value a, mlir::Value b) {
    return builder.create<Op>(location, a, b);
  }
  mlir::Value less(mlir::Value a, mlir::Value b);
  mlir::Value least(mlir::Value a, mlir::Value b);
  /// `row * rowStride + column * columnStride`; a null stride is 1.
  mlir::Value position(mlir::Value row, mlir::Value rowStride,
                       mlir::Value column, mlir::Value columnStride);
  mlir::Value advance(mlir::Value base, mlir::Value bytes);
  mlir::Value load(mlir::Value address, mlir::Type type, unsigned alignment);
  void store(mlir::Value value, mlir::Value address, unsigned alignment);
  /// Lowers the entry of the block's row in the list of lost elements.
  void reportLost(mlir::Value index);

  mlir::Value thread;                    ///< in its block
  mlir::Value firstRow, rowStep, column; ///< of the thread
  mlir::Value rows, columns;             ///< of the piece

private:
  mlir::Value findRow(mlir::Value tile);
  mlir::OpBuilder &builder;
  mlir::Location location;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Value instance, row, tileInRow;
};

} // namespace mbc::compiler
