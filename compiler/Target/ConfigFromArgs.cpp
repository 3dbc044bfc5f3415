#include "compiler/Target/ConfigFromArgs.h"

#include "compiler/Target/MegatronArgs.h"
#include "dsl/ConfigJson.h"
#include "dsl/InvertConfig.h"
#include "dsl/Parse.h"

#include <algorithm>
#include <array>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <set>

namespace mbc::compiler {
namespace {

using dsl::ConfigNode;
using dsl::Value;
using dsl::ValueList;

Value toValue(const Json &json) {
  if (json.is_boolean())
    return json.get<bool>();
  if (json.is_number_integer())
    return json.get<int64_t>();
  if (json.is_number())
    return json.get<double>();
  if (json.is_string())
    return json.get<std::string>();
  if (!json.is_array())
    return {};
  auto list = std::make_shared<ValueList>();
  for (const Json &item : json)
    list->push_back(toValue(item));
  return std::shared_ptr<const ValueList>(std::move(list));
}

/// Megatron takes n for a list with an element for each layer. What the
/// elements are, i from 0.
using EveryNth = int64_t (*)(int64_t i, int64_t n);
EveryNth everyNth(std::string_view name) {
  if (name == "moe_layer_freq")
    return [](int64_t i, int64_t n) { return int64_t{i % n == 0}; };
  if (name == "linear_attention_freq" || name == "window_attn_skip_freq")
    return [](int64_t i, int64_t n) { return int64_t{(i + 1) % n != 0}; };
  if (name == "no_rope_freq")
    return [](int64_t i, int64_t n) { return int64_t{(i + 1) % n == 0}; };
  return nullptr;
}

bool isTrue(const Json &args, const char *name) {
  return args.value(name, Json()) == Json(true);
}

/// Arguments as they count: Megatron has defaults for what is switched off.
Json effective(Json args, const std::string &patternField) {
  if (args.value("group_query_attention", Json()) == Json(false) &&
      !isTrue(args, "multi_latent_attention"))
    args["num_query_groups"] = args.value("num_attention_heads", Json());
  if (args.value("moe_router_num_groups", Json()) == 1) // one is none
    args["moe_router_num_groups"] = args["moe_router_group_topk"] = nullptr;
  if (Json pattern = args.value(patternField, Json()); pattern.is_string()) {
    std::string text = pattern.get<std::string>();
    std::erase(text, '|'); // marks of the layout
    args[patternField] = text;
  }
  return args;
}

std::vector<Value> spellings(const std::string &name, const Json &args) {
  const Json &value = args[name];
  std::vector<Value> all{toValue(value)};
  const Json layers = args.value("num_layers", Json());
  if (EveryNth nth = everyNth(name); nth && value.is_number_integer() &&
                                     value > 0 && layers.is_number_integer()) {
    auto list = std::make_shared<ValueList>();
    for (int64_t i = 0; i < layers.get<int64_t>(); ++i)
      list->emplace_back(nth(i, value.get<int64_t>()));
    all.emplace_back(std::shared_ptr<const ValueList>(std::move(list)));
  }
  return all;
}

/// The argument without which Megatron reads nothing of another, or "".
std::string_view switchOf(std::string_view name) {
  if (name == "rope_scaling_factor")
    return "use_rope_scaling";
  if (name == "window_attn_skip_freq")
    return "window_size";
  return name.starts_with("moe_")   ? "num_experts"
         : name.starts_with("mtp_") ? "mtp_num_layers"
                                    : "";
}

bool isOff(const Json &args, std::string_view name) {
  // Latent attention has YaRN's numbers with no scaling, too.
  static constexpr std::array ofScaling = {
      std::string_view("mscale"), std::string_view("mscale_all_dim"),
      std::string_view("beta_fast"), std::string_view("beta_slow"),
      std::string_view("original_max_position_embeddings")};
  if (std::ranges::find(ofScaling, name) != ofScaling.end())
    return args.value("rotary_scaling_factor", Json()) == 1.0;
  std::string_view by = switchOf(name);
  if (by.empty() || by == name)
    return false;
  auto there = args.find(by);
  return there != args.end() &&
         (there->is_null() || *there == false || *there == 0);
}

std::vector<dsl::KnownArgument> knownArguments(const dsl::Spec &spec,
                                               const Json &args) {
  std::vector<dsl::KnownArgument> known;
  for (const dsl::ConfigAssignment &field : spec.config) {
    auto there = args.find(field.field);
    if (isOff(args, field.field))
      continue;
    // Of what Megatron has for plain attention only, the spec knows better.
    const bool isOther = isTrue(args, "multi_latent_attention") &&
                         saysNothingOfTheModel(field.field, args) &&
                         !saysNothingOfTheModel(field.field, Json::object());
    known.push_back(
        {field.field, isOther || there == args.end() || there->is_object()
                          ? std::vector<Value>()
                          : spellings(field.field, args)});
  }
  // The pattern needs what else there is.
  const std::string &pattern = spec.model->patternField;
  std::ranges::stable_partition(known, [&](const dsl::KnownArgument &argument) {
    return argument.name != pattern;
  });
  return known;
}

void appendNode(std::string &out, const ConfigNode &node, int indent) {
  using Kind = ConfigNode::Kind;
  switch (node.kind) {
  case Kind::Null:
    out += "null";
    return;
  case Kind::Bool:
    out += node.integer != 0 ? "true" : "false";
    return;
  case Kind::Int:
    out += std::to_string(node.integer);
    return;
  case Kind::Double:
    out += Json(node.number).dump();
    return;
  case Kind::String:
    appendJsonString(out, node.text);
    return;
  case Kind::List:
    out += '[';
    for (const ConfigNode &item : node.items) {
      if (&item != &node.items.front())
        out += ", ";
      appendNode(out, item, indent);
    }
    out += ']';
    return;
  case Kind::Object:
    break;
  }
  out += '{';
  for (const dsl::ConfigMember &member : node.members) {
    if (&member != &node.members.front())
      out += ',';
    out.append("\n").append(static_cast<size_t>(indent) + 2, ' ');
    appendJsonString(out, member.name);
    out += ": ";
    appendNode(out, member.value, indent + 2);
  }
  out.append("\n").append(static_cast<size_t>(indent), ' ').append("}");
}

std::string configText(const ConfigNode &config) {
  std::string text;
  appendNode(text, config, 0);
  return text + '\n';
}

ConfigNode text(std::string value) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::String;
  node.text = std::move(value);
  return node;
}

/// What Hugging Face finds the class by: the spec's first, unless it is given.
void addIdentity(ConfigNode &config, const dsl::SpecHeader &header,
                 std::vector<std::string> &notes) {
  size_t at = 0;
  if (const ConfigNode *given = config.find("architectures")) {
    auto found = std::ranges::find(
        header.architectures,
        given->items.empty() ? std::string() : given->items.front().text);
    if (found != header.architectures.end())
      at = static_cast<size_t>(found - header.architectures.begin());
  } else if (!header.architectures.empty()) {
    ConfigNode list;
    list.kind = ConfigNode::Kind::List;
    list.items.push_back(text(header.architectures.front()));
    config.members.insert(config.members.begin(),
                          {"architectures", std::move(list)});
    if (header.architectures.size() > 1)
      notes.push_back(fmt::format(
          "the spec {} is for {}: config.json says {}; for another, give "
          "architectures and model_type in the config.json of --hf-config DIR",
          header.name, fmt::join(header.architectures, ", "),
          header.architectures.front()));
  }
  if (!config.find("model_type") && !header.modelTypes.empty())
    config.members.push_back(
        {"model_type",
         text(header.modelTypes[std::min(at, header.modelTypes.size() - 1)])});
}

/// true and 1 are one to Megatron.
bool agree(const Value &one, const Value &other) {
  auto asInteger = [](const Value &value) {
    const bool *flag = std::get_if<bool>(&value);
    return flag ? Value(int64_t{*flag}) : value;
  };
  return dsl::sameValue(asInteger(one), asInteger(other));
}

/// What was made may not be what the checkpoint says in a single argument.
void compare(const dsl::Model &model, const std::string &checkpoint,
             const std::vector<dsl::KnownArgument> &known, const Json &args,
             dsl::Diagnostics &diagnostics) {
  for (const dsl::ConfigField &field : model.config) {
    auto argument =
        std::ranges::find(known, field.name, &dsl::KnownArgument::name);
    if (argument == known.end() || argument->spellings.empty() ||
        saysNothingOfTheModel(field.name, args) ||
        std::ranges::any_of(argument->spellings, [&](const Value &value) {
          return agree(value, field.value);
        }))
      continue;
    diagnostics.error(
        field.where,
        fmt::format("{} has {} {}, and no config.json was found that gives it: "
                    "the nearest gives {}. Give the fields that it comes from "
                    "in the config.json of --hf-config DIR; the others are "
                    "taken from the arguments",
                    checkpoint, field.name, args[field.name].dump(),
                    argumentJson(field.value).dump()));
  }
}

/// One of two names of the same number, of which the other is there.
bool isTwin(const Json &args, std::string_view name) {
  return (name == "layernorm_epsilon" && args.contains("norm_epsilon")) ||
         (name == "norm_epsilon" && args.contains("layernorm_epsilon"));
}

/// Arguments that the checkpoint does not give, and what they are taken to be.
void noteDefaults(const dsl::Model &model, const std::string &checkpoint,
                  const Json &args, std::vector<std::string> &notes) {
  std::vector<std::string> taken;
  for (const dsl::ConfigField &field : model.config) {
    const Json value = argumentJson(field.value);
    if (!args.contains(field.name) && !value.is_null() &&
        !isOff(args, field.name) && !isTwin(args, field.name) &&
        !saysNothingOfTheModel(field.name, args))
      taken.push_back(fmt::format("{} {}", field.name, value.dump()));
  }
  if (!taken.empty())
    notes.push_back(fmt::format("{} has no argument for these, and config.json "
                                "is made as if it had: {}",
                                checkpoint, fmt::join(taken, ", ")));
}

/// Fields without which the spec's rules, or what it says that its family
/// writes, would not be whole.
std::vector<std::string> missingFields(const dsl::Spec &spec,
                                       const ConfigNode &config,
                                       const dsl::Model &model) {
  std::set<std::string> missing(model.missingConfigFields.begin(),
                                model.missingConfigFields.end());
  for (const dsl::Name &name : spec.writtenFields) {
    const ConfigNode *node = &config;
    for (size_t at = 1; node && at != name.segments.size(); ++at)
      node = node->find(name.segments[at]);
    if (!node && !name.wildcard)
      missing.insert(name.spelling.substr(name.spelling.find('.') + 1));
  }
  return {missing.begin(), missing.end()};
}

std::string askFor(const std::vector<std::string> &missing,
                   const ConfigSource &source) {
  const Json padded = source.args.value("padded_vocab_size", Json());
  const bool vocabulary = std::ranges::any_of(
      missing, [](const auto &field) { return field.ends_with("vocab_size"); });
  return fmt::format(
      "the arguments of {} do not give {} of config.json{}. Write a "
      "config.json with {}, and name its folder by --hf-config DIR; the other "
      "fields are taken from the arguments",
      source.checkpoint, fmt::join(missing, ", "),
      vocabulary && padded.is_number()
          ? fmt::format(" (padded_vocab_size, {}, counts rows of padding)",
                        padded.dump())
          : "",
      missing.size() == 1 ? "it" : "them");
}

} // namespace

std::string configFromArgs(const dsl::Spec &spec, const ConfigSource &source,
                           const dsl::NameOracle &oracle,
                           std::vector<std::string> &notes,
                           dsl::Diagnostics &diagnostics) {
  Result<ConfigNode> known =
      dsl::parseConfig(source.known.empty() ? "{}" : source.known);
  if (!known) {
    diagnostics.error({}, known.error().message);
    return {};
  }
  const dsl::SpecHeader header = dsl::header(spec);
  addIdentity(*known, header, notes);
  if (!known->find("dtype") && !known->find("torch_dtype"))
    known->members.push_back(
        {"torch_dtype", text(std::string(torchName(source.dtype)))});
  const Json args = effective(source.args, spec.model->patternField);
  const std::vector<dsl::KnownArgument> arguments = knownArguments(spec, args);
  const ConfigNode config =
      dsl::invertConfig(spec, oracle, std::move(*known), arguments,
                        toValue(args.value("vocab_size", Json())));
  const std::string made = configText(config);
  dsl::Diagnostics findings;
  const dsl::Model model = dsl::evaluate(spec, made, oracle, findings);
  if (std::vector<std::string> missing = missingFields(spec, config, model);
      !missing.empty())
    diagnostics.error({}, askFor(missing, source));
  else
    compare(model, std::string(source.checkpoint), arguments, args,
            diagnostics);
  if (diagnostics.hasErrors())
    return {};
  if (args.value("max_position_embeddings", Json()).is_null() &&
      !args.value("seq_length", Json()).is_null())
    notes.push_back(fmt::format(
        "max_position_embeddings of config.json is seq_length, {}, the length "
        "that was trained last: the arguments do not give the model's own",
        args["seq_length"].dump()));
  noteDefaults(model, std::string(source.checkpoint), args, notes);
  notes.push_back(fmt::format(
      "config.json is made from the arguments of {} by the spec {}; the "
      "tokenizer is not there: copy its files from the model that was trained",
      source.checkpoint, header.name));
  return made;
}

} // namespace mbc::compiler
