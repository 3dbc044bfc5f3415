#pragma once

#include "dsl/Ast.h"
#include "dsl/ConfigJson.h"
#include "dsl/Diagnostic.h"
#include "dsl/Model.h"

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mbc::dsl {

/// A value and, if it came straight from config.json, its field there. An
/// object of config.json is a null value with its node.
struct Datum {
  Value value;
  const ConfigNode *node = nullptr;

  bool isObject() const {
    return node && node->kind == ConfigNode::Kind::Object;
  }
  bool isNull() const {
    return std::holds_alternative<std::monostate>(value) && !isObject();
  }
};

/// "hf.rope_theta (NaN)", "a list of 3", for messages.
std::string describe(const Datum &datum);

Datum fromConfig(const ConfigNode &node);

using ConfigFields = std::vector<const ConfigNode *>;

/// "num_attention_heads 8, head_dim 13": what config.json says there, without
/// what is null; empty if it says nothing.
std::string describe(const ConfigFields &fields);
/// How a message about a number that comes from there ends; "" without fields.
std::string correction(const std::string &fields);

/// Where an error is reported from: adds the block and def calls that led
/// there, and reports each place once however often it is reached.
class Reporter {
public:
  explicit Reporter(Diagnostics &diagnostics) : diagnostics(diagnostics) {}

  void error(const SourceRange &where, std::string text,
             std::vector<Note> notes = {});
  void pushCall(const SourceRange &where, std::string_view kind,
                const std::string &callee) {
    calls.push_back({&where, kind, &callee});
  }
  void popCall() { calls.pop_back(); }
  std::vector<Note> expansion() const; ///< innermost first

  /// A condition that decided that what follows holds.
  void pushCondition(const SourceRange &where, const Datum &datum);
  void popConditions(size_t count) {
    conditions_.resize(conditions_.size() - count);
  }
  const std::vector<Note> &conditions() const { return conditions_; }

private:
  struct CallSite {
    const SourceRange *where;
    std::string_view kind;
    const std::string *callee;
  };
  Diagnostics &diagnostics;
  std::vector<CallSite> calls;
  std::vector<Note> conditions_;
  std::set<std::tuple<const SourceFile *, uint32_t, uint32_t>> reported;
};

/// A def being expanded. Arguments are evaluated where they are used, in the
/// caller's frame: whether one is a tensor or a value follows from its use.
struct DefFrame {
  const Def *def;
  const Call *call;
  const DefFrame *caller;
};

/// Evaluates expressions over config.json. Every failure has been reported
/// when a function returns nothing.
class Expressions {
public:
  Expressions(const Spec &spec, const ConfigNode &config,
              const NameOracle &oracle, Reporter &reporter)
      : spec(spec), config(config), oracle(oracle), reporter(reporter) {}

  std::optional<Datum> evaluate(const Expr &expr);
  std::optional<int64_t> integer(const Expr &expr);
  std::optional<double> number(const Expr &expr);
  std::optional<bool> condition(const Expr &expr);
  /// The same, as the value that it comes from.
  std::optional<Datum> truth(const Expr &expr);

  /// Appends the name with its holes filled.
  bool appendName(const Name &name, std::string &out);

  /// The argument that a plain name stands for inside a def, or null.
  const Argument *parameter(const Name &name) const;

  const DefFrame *frame() const { return currentFrame; }
  void setFrame(const DefFrame *frame) { currentFrame = frame; }

  // Loop variables and block parameters.
  void push(Symbol symbol, Datum value, ConfigFields fields = {});
  void setLast(int64_t value) { locals.back().value.value = value; }
  void pop(size_t count = 1);
  /// A block sees its own parameters only; returns the former base.
  size_t hideLocals(size_t parameters);
  void restoreLocals(size_t base) { localsBase = base; }

  /// from..to as integers; more than `maxIterations` is an error.
  std::optional<std::pair<int64_t, int64_t>> bounds(const Expr &from,
                                                    const Expr &to);

  static constexpr int64_t maxIterations = 1 << 20;

  /// Counts a step of a loop, block, def or argument, or the bytes of a
  /// value that grows. False, with an error at the first one too many: nested
  /// loops may each be short and yet never end.
  bool step(const SourceRange &where, uint64_t count = 1);
  static constexpr uint64_t maxSteps = 20'000'000;

  /// Forgets what lets were: config.json has changed.
  void forgetLets() { lets.clear(); }

  /// Whether a plain name is a loop variable or a block's parameter here.
  bool isLocal(const Name &name) const { return findLocal(name.head); }

  /// What config.json says and the conversion does not keep, in words.
  std::set<std::string> configNotes;
  /// What was asked of config.json and is not there: "text_config.hidden_size".
  std::set<std::string> missingFields;

  /// Collects the fields of config.json that values come from, while it lives.
  class Trace {
  public:
    explicit Trace(Expressions &values)
        : values(values), outer(std::exchange(values.trace, &fields)) {}
    ~Trace() {
      values.trace = outer;
      values.noteFields(fields);
    }
    Trace(const Trace &) = delete;
    Trace &operator=(const Trace &) = delete;

    ConfigFields fields;

  private:
    Expressions &values;
    ConfigFields *outer;
  };

  /// `correction` of what an expression that has a value comes from.
  std::string correctionOf(const Expr &expr);

private:
  struct Local {
    Symbol symbol = noSymbol;
    Datum value;
    const DefFrame *owner = nullptr;
    ConfigFields fields;
  };
  struct LetState {
    enum : uint8_t { Running, Failed, Ready } state = Running;
    Datum value;
    ConfigFields fields;
  };

  void noteFields(const ConfigFields &fields) {
    if (trace)
      trace->insert(trace->end(), fields.begin(), fields.end());
  }
  std::optional<Datum> fails(const SourceRange &where, std::string text);
  std::optional<Datum> nameValue(const Expr &expr, bool allowMissing);
  std::optional<Datum> headValue(const Name &name);
  std::optional<Datum> letValue(const Let &let, Symbol symbol);
  std::optional<Datum> fieldValue(Datum datum, const Name &name,
                                  bool allowMissing);
  std::optional<Datum> callValue(const Expr &expr);
  std::optional<Datum> builtin(const Expr &expr);
  std::optional<Datum>
  extremum(const Expr &expr, const std::vector<Datum> &arguments, bool largest);
  std::optional<Datum> joined(const Expr &expr, const Datum &list);
  std::optional<Datum> floored(const Expr &expr, double value);
  std::optional<Datum> integerList(const Expr &expr, const Datum &from);
  std::optional<Datum> present(const Expr &expr,
                               const std::vector<Datum> &arguments);
  std::optional<Datum> expected(const Expr &expr,
                                const std::vector<Datum> &arguments);
  std::optional<Datum> listValue(const Expr &expr);
  std::optional<Datum> comprehension(const Expr &expr);
  std::optional<Datum> indexValue(const Expr &expr);
  std::string correctionOfOperands(const Expr &expr);
  std::optional<Datum> unary(const Expr &expr);
  std::optional<Datum> binary(const Expr &expr);
  std::optional<Datum> arithmetic(const Expr &expr, const Datum &left,
                                  const Datum &right);
  std::optional<Datum> integerArithmetic(const Expr &expr, int64_t left,
                                         int64_t right);
  std::optional<Datum> comparison(const Expr &expr, const Datum &left,
                                  const Datum &right);
  std::optional<bool> equal(const Expr &expr, const Datum &left,
                            const Datum &right);
  const Local *findLocal(Symbol symbol) const;

  const Spec &spec;
  const ConfigNode &config;
  const NameOracle &oracle;
  Reporter &reporter;
  std::vector<Local> locals;
  size_t localsBase = 0;
  const DefFrame *currentFrame = nullptr;
  ConfigFields *trace = nullptr; ///< null if nobody asks
  std::unordered_map<Symbol, LetState> lets;
  size_t openLets = 0;
  uint64_t steps_ = 0;
};

/// Names of the functions that give a value: `len`, `join` ...
const std::vector<std::string> &builtinNames();

} // namespace mbc::dsl
