#include "tests/end-to-end/Listing.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <filesystem>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

// The tutorial of specs/README.md, followed to the letter.

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

/// The text below a heading, up to the next of its kind.
std::string section(const std::string &text, const std::string &heading) {
  const size_t begin = text.find("## " + heading + "\n");
  EXPECT_NE(begin, std::string::npos) << heading;
  return text.substr(begin, text.find("\n## ", begin + 1) - begin);
}

/// Blocks of code: lines that are indented by more than the items of a list.
std::vector<std::string> codeBlocks(const std::string &text) {
  const std::string indent(7, ' ');
  std::vector<std::string> blocks;
  std::istringstream lines(text);
  bool isInside = false;
  size_t blank = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      ++blank;
      continue;
    }
    const bool isCode = line.starts_with(indent);
    if (isCode && !isInside)
      blocks.emplace_back();
    if (isCode)
      blocks.back() += std::string(isInside ? blank : 0, '\n') +
                       line.substr(indent.size()) + "\n";
    isInside = isCode;
    blank = 0;
  }
  return blocks;
}

/// A model that no spec knows, which the tutorial describes, and the Llama that
/// holds the same numbers under Llama's names.
struct Foo {
  HfModel foo, llama = fixture("llama");

  Foo() {
    llama.config["vocab_size"] = 512;
    for (const char *name : {"lm_head.weight", "model.embed_tokens.weight"})
      llama.at(name).shape[0] = 512;
    foo = llama;
    foo.config["architectures"] = {"FooForCausalLM"};
    foo.config["model_type"] = "foo";
    const Tensors tensors = llama.tensors();
    for (int64_t i = 0; i != llama.config["num_hidden_layers"]; ++i) {
      const std::string mlp = fmt::format("model.layers.{}.mlp.", i);
      const std::string gate = mlp + "gate_proj.weight",
                        up = mlp + "up_proj.weight",
                        both = mlp + "gate_up_proj.weight";
      const Tensor joined = joinRows({tensors.at(gate), tensors.at(up)});
      foo.erase(gate);
      foo.erase(up);
      foo.add(both, joined.dtype, joined.shape);
      foo.contents[both] = joined.bytes;
    }
  }
};

class Tutorial : public testing::Test {
protected:
  /// A line of the tutorial, in the folder of the model and the spec.
  Outcome runLine(const std::string &line) const {
    const std::string bin = fs::path(mbcBinary()).parent_path();
    return run({"/bin/sh", "-c", "cd \"$0\" && PATH=\"$1:$PATH\" && " + line,
                scratch_ / "", bin});
  }

  const Foo models_;
  Scratch scratch_;
};

TEST_F(Tutorial, GivesASpecThatHoldsAndLosesNothing) {
  models_.foo.write(scratch_ / "Foo-1B");
  std::string spec;
  std::vector<std::string> commands;
  for (const std::string &block :
       codeBlocks(section(readText(MBC_SPECS "/README.md"), "Writing a spec")))
    if (block.starts_with("mbc ")) {
      std::istringstream lines(block);
      for (std::string line; std::getline(lines, line);)
        commands.push_back(line);
    } else {
      spec += (spec.empty() ? "" : "\n") + block;
    }
  ASSERT_GE(commands.size(), 6u);
  writeText(scratch_ / "foo.mbspec", spec);

  for (const std::string &command : commands) {
    const Outcome outcome = runLine(command);
    ASSERT_EQ(outcome.status, 0) << command << "\n" << outcome.err << spec;
    // Neither a finding nor a note.
    if (command.starts_with("mbc check")) {
      EXPECT_EQ(outcome.err, "") << command;
    }
  }
  // It was in the usual layout already.
  EXPECT_EQ(readText(scratch_ / "foo.mbspec"), spec);

  const Outcome proof =
      runLine("mbc check Foo-1B --spec foo.mbspec --proof --json");
  ASSERT_EQ(proof.status, 0) << proof.err;
  for (const Json &rule : Json::parse(proof.out)) {
    EXPECT_EQ(rule["losses"], Json::array()) << rule;
    for (const Json &size : rule["sizes"])
      EXPECT_EQ(size["result"], "proven") << rule;
  }

  // What Megatron gets is what it gets of the same numbers in a Llama.
  const Answers answers(models_.llama, {});
  EXPECT_EQ(answers.compareWhole(list(scratch_ / "foo-megatron"), 256), "");
  EXPECT_EQ(
      difference(models_.foo.tensors(), readSafetensors(scratch_ / "foo-back")),
      "");
}

} // namespace
} // namespace mbc::test
