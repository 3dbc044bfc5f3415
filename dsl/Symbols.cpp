#include "dsl/Symbols.h"

#include <algorithm>

namespace mbc::dsl {
namespace {

using Kind = SymbolUse::Kind;

class SymbolFinder {
public:
  explicit SymbolFinder(const Spec &spec) : spec(spec) {}

  std::vector<SymbolUse> run() {
    for (const Use &use : spec.uses)
      uses.push_back({Kind::File, noSymbol, use.where, {use.file, 1, 1, 1}});
    for (const auto &[symbol, let] : spec.lets) {
      declare(Kind::Let, symbol, let.where);
      value(let.value);
    }
    for (const auto &[symbol, def] : spec.defs) {
      declare(Kind::Def, symbol, def.where);
      inScope(def.parameters, def.parametersWhere, [&] { value(def.body); });
    }
    for (const auto &[symbol, block] : spec.blocks) {
      declare(Kind::Block, symbol, block.where);
      inScope(block.parameters, block.parametersWhere,
              [&] { walk(block.body); });
    }
    walk(spec.statements);
    for (const ConfigAssignment &field : spec.config)
      value(field.value);
    if (spec.model)
      for (const ExprPtr *part :
           {&spec.model->layers, &spec.model->stackedIf, &spec.model->experts,
            &spec.model->vocab, &spec.model->vocabMultiple})
        value(*part);
    return std::move(uses);
  }

private:
  struct Local {
    Kind kind;
    Symbol symbol;
    SourceRange where;
  };

  void declare(Kind kind, Symbol symbol, const SourceRange &where) {
    uses.push_back({kind, symbol, where, where});
  }

  template <typename Visit>
  void inScope(const std::vector<Symbol> &symbols,
               const std::vector<SourceRange> &places, Visit visit) {
    for (size_t i = 0; i != symbols.size(); ++i) {
      declare(Kind::Parameter, symbols[i], places[i]);
      locals.push_back({Kind::Parameter, symbols[i], places[i]});
    }
    visit();
    locals.resize(locals.size() - symbols.size());
  }

  template <typename Visit>
  void withVariable(Symbol symbol, const SourceRange &where, Visit visit) {
    declare(Kind::Variable, symbol, where);
    locals.push_back({Kind::Variable, symbol, where});
    visit();
    locals.pop_back();
  }

  /// A word at the start of a name: a local, else a let.
  void head(const Name &name) {
    for (const NamePiece &piece : name.pieces)
      value(piece.hole);
    if (name.segments.empty() || name.fromRoot)
      return;
    SourceRange where = name.where;
    where.length = static_cast<uint32_t>(name.segments[0].size());
    auto local =
        std::find_if(locals.rbegin(), locals.rend(), [&](const Local &entry) {
          return entry.symbol == name.head;
        });
    if (local != locals.rend())
      uses.push_back({local->kind, name.head, where, local->where});
    else if (auto let = spec.lets.find(name.head); let != spec.lets.end())
      uses.push_back({Kind::Let, name.head, where, let->second.where});
  }

  /// The name of a tensor: of its plain words only a def's parameters stand
  /// for something.
  void tensorName(const Name &name) {
    bool parameter =
        std::any_of(locals.begin(), locals.end(), [&](const Local &entry) {
          return entry.kind == Kind::Parameter && entry.symbol == name.head;
        });
    if (parameter && name.segments.size() == 1)
      return head(name);
    for (const NamePiece &piece : name.pieces)
      value(piece.hole);
  }

  void call(const Call &call, bool tensors) {
    if (auto def = spec.defs.find(call.symbol); def != spec.defs.end())
      uses.push_back({Kind::Def, call.symbol, call.where, def->second.where});
    else if (auto block = spec.blocks.find(call.symbol);
             block != spec.blocks.end())
      uses.push_back(
          {Kind::Block, call.symbol, call.where, block->second.where});
    auto arguments = [&] {
      for (const Argument &argument : call.arguments) {
        tensors ? side(argument.value) : value(argument.value);
        value(argument.extent);
      }
    };
    value(call.from);
    value(call.to);
    if (call.variable == noSymbol)
      arguments();
    else
      withVariable(call.variable, call.variableWhere, arguments);
  }

  /// A side of a rule, or a part of one. Which arguments are values is not
  /// looked at: lets there are found by `value` as well.
  void side(const ExprPtr &expr) {
    if (expr && expr->kind == Expr::Kind::Name) {
      const Name &name = *expr->name;
      bool isLet = name.segments.size() == 1 && spec.lets.contains(name.head);
      isLet ? head(name) : tensorName(name);
    } else if (expr && expr->kind == Expr::Kind::Call)
      call(*expr->call, true);
    else
      value(expr);
  }

  void value(const ExprPtr &expr) {
    if (!expr)
      return;
    if (expr->kind == Expr::Kind::Name)
      return head(*expr->name);
    if (expr->kind == Expr::Kind::Call)
      return call(*expr->call, false);
    if (expr->kind != Expr::Kind::Comprehension) {
      for (const ExprPtr &operand : expr->operands)
        value(operand);
      return;
    }
    value(expr->operands[0]);
    value(expr->operands[1]);
    withVariable(expr->variable, expr->variableWhere,
                 [&] { value(expr->operands[2]); });
  }

  void attributes(const std::vector<Attribute> &attributes) {
    for (const Attribute &attribute : attributes) {
      value(attribute.condition);
      for (const AttributeWord *word : {&attribute.value, &attribute.otherwise})
        for (const Argument &argument : word->arguments)
          value(argument.value);
    }
  }

  void walk(const Body &body) {
    for (const Statement &statement : body)
      std::visit(*this, statement.node);
  }

public: // for std::visit
  void operator()(const Rule &rule) {
    side(rule.megatron);
    side(rule.hf);
    attributes(rule.attributes);
  }
  void operator()(const Scope &scope) {
    tensorName(scope.megatron);
    tensorName(scope.hf);
    walk(scope.body);
  }
  void operator()(const For &loop) {
    value(loop.from);
    value(loop.to);
    withVariable(loop.variable, loop.variableWhere, [&] { walk(loop.body); });
  }
  void operator()(const If &choice) {
    for (const Branch &branch : choice.branches) {
      value(branch.condition);
      walk(branch.body);
    }
  }
  void operator()(const Match &match) {
    value(match.value);
    for (const MatchCase &entry : match.cases)
      walk(entry.body);
  }
  void operator()(const Either &either) {
    for (const Form &form : either.forms)
      walk(form.body);
  }
  void operator()(const Call &statement) { call(statement, false); }
  void operator()(const TiedStatement &tied) {
    tensorName(tied.copy);
    tensorName(tied.owner);
    attributes(tied.attributes);
  }
  void operator()(const IgnoreStatement &ignore) {
    for (const Name &pattern : ignore.patterns)
      tensorName(pattern);
  }
  void operator()(const ExtraStateStatement &extra) {
    for (const Name &module : extra.modules)
      tensorName(module);
    value(extra.experts);
  }

private:
  const Spec &spec;
  std::vector<SymbolUse> uses;
  std::vector<Local> locals; ///< parameters and loop variables in sight
};

} // namespace

std::vector<SymbolUse> symbolUses(const Spec &spec) {
  return SymbolFinder(spec).run();
}

} // namespace mbc::dsl
