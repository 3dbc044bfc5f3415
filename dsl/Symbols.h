#pragma once

#include "dsl/Ast.h"

#include <vector>

namespace mbc::dsl {

/// A word of a spec that stands for something declared, or declares it.
struct SymbolUse {
  enum class Kind : uint8_t { Let, Def, Block, Parameter, Variable, File };

  Kind kind = Kind::Let;
  Symbol symbol = noSymbol; ///< of all kinds but File
  SourceRange where;
  SourceRange declaration; ///< of a File: its first line
};

/// All uses and declarations in all files of a spec, for tools. The spec may
/// have errors; names that nothing declares are left out.
std::vector<SymbolUse> symbolUses(const Spec &spec);

} // namespace mbc::dsl
