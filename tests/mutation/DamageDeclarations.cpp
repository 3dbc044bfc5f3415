#include "tests/mutation/Damage.h"

#include <fmt/format.h>

namespace mbc::test {

void Damage::fields(antlr4::tree::ParseTree *tree,
                    std::vector<Span> &found) const {
  if (auto *name = dynamic_cast<Tree::NameContext *>(tree)) {
    Span field = span(name);
    if (field.text.starts_with("hf.") || field.text.starts_with("text."))
      found.push_back(field);
    return;
  }
  for (antlr4::tree::ParseTree *child : tree->children)
    fields(child, found);
}

/// Each field read by one declaration becomes the first of the next one.
void Damage::nextField(const std::vector<std::vector<Span>> &fieldsOf) {
  for (size_t i = 0; i + 1 < fieldsOf.size(); ++i)
    for (const Span &field : fieldsOf[i])
      replace("another field", field, fieldsOf[i + 1].front().text);
}

void Damage::config(Tree::ConfigBlockContext *tree) {
  std::vector<std::vector<Span>> fieldsOf;
  for (Tree::ConfigFieldContext *field : tree->configField()) {
    if (auto *ignore = dynamic_cast<Tree::ConfigIgnoreContext *>(field)) {
      std::vector<Span> names = spans(ignore->name());
      for (size_t i = 0; names.size() > 1 && i != names.size(); ++i)
        dropItem("ignored field dropped", names, i);
      if (names.size() == 1)
        replace("ignored field dropped", span(field), "");
      continue;
    }
    replace("config field dropped", span(field), "");
    if (std::vector<Span> found; fields(field, found), !found.empty())
      fieldsOf.push_back(std::move(found));
  }
  nextField(fieldsOf);
}

void Damage::lets(Tree::SpecContext *tree) {
  std::vector<std::vector<Span>> fieldsOf;
  for (Tree::ItemContext *item : tree->item()) {
    auto *let = dynamic_cast<Tree::LetContext *>(item);
    if (std::vector<Span> found; let && (fields(let, found), !found.empty()))
      fieldsOf.push_back(std::move(found));
  }
  nextField(fieldsOf);
}

void Damage::model(Tree::ModelBlockContext *tree) {
  for (Tree::ModelFieldContext *field : tree->modelField()) {
    if (dynamic_cast<Tree::ExpertsFieldContext *>(field) ||
        dynamic_cast<Tree::PatternFieldContext *>(field))
      replace("model field", span(field), "");
    auto *layers = dynamic_cast<Tree::LayersFieldContext *>(field);
    if (!layers)
      continue;
    offByOne("model field", span(layers->count));
    if (layers->stacked)
      replace("model field", between(span(layers->stacked), span(field)), "");
    else
      replace("model field", span(field), span(field).text + " stacked");
  }
}

} // namespace mbc::test
