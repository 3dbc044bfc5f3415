#include "runtime/Command.h"
#include "runtime/CommandConvert.h"
#include "runtime/CommandFormat.h"
#include "runtime/CommandLanguageServer.h"
#include "runtime/CommandList.h"
#include "runtime/CommandSuggestion.h"
#include "runtime/CommandSummary.h"
#include "runtime/Version.h"

#include <csignal>
#include <cstdlib>
#include <exception>
#include <unistd.h>

namespace mbc {

int report(const Error &error, int status) {
  bool colour = isatty(STDERR_FILENO) && !std::getenv("NO_COLOR");
  fmt::print(stderr, "{}error:{} {}\n", colour ? "\x1b[1;31m" : "",
             colour ? "\x1b[0m" : "", error.message);
  return status;
}

int report(const Error &error, const OutputOptions &output) {
  if (!output.json)
    return report(error);
  printFailureJson(error.message);
  return 1;
}

namespace {

/// The commands and what they were given. CLI11 keeps pointers to the values.
class CommandLine {
public:
  CommandLine();
  int run(int argc, char **argv);

private:
  CLI::App *add(const char *name, const char *help, const char *example);
  void addConvert();
  void addCompile();
  void addRun();
  void addCheck();
  void addList();
  void addGraph();
  void addSpecs();
  void addSpecNew();
  void addFormat();
  void addLanguageServer();
  int wrongUsage(const CLI::ParseError &error) const;
  const CLI::App &chosen() const;

  CLI::App app_{"Converts LLM checkpoints between Hugging Face and "
                "Megatron-Core, by declarative specs."};
  OutputOptions output_;
  CompileOptions compile_;
  ExecutionOptions execution_;
  ListingOptions listing_;
  std::string target_, plan_, from_, file_, checkpoint_, shards_;
  std::vector<std::string> specs_;
  bool dryRun_ = false, formatCheck_ = false;
  int status_ = 0;
};

CLI::App *CommandLine::add(const char *name, const char *help,
                           const char *example) {
  CLI::App *command = app_.add_subcommand(name, help);
  command->footer(std::string("\nExample:\n") + example);
  return command;
}

void CommandLine::addConvert() {
  CLI::App *command =
      add("convert", "Convert a checkpoint: plan and run in one",
          "  mbc convert Qwen3-8B qwen3-megatron --tp 2 --pp 2\n"
          "  mbc convert qwen3-megatron Qwen3-8B-again\n"
          "  mbc convert qwen3-megatron qwen3-tp8 --to megatron --tp 8\n"
          "The direction follows from SRC. --dry-run shows what would be "
          "written.");
  command->add_option("SRC", compile_.source, "Checkpoint directory")
      ->required();
  command->add_option("DST", target_, "New or empty directory")->required();
  command->add_flag("--dry-run", dryRun_, "Check and show; write nothing");
  addCompileOptions(*command, compile_, true);
  addExecutionOptions(*command, execution_);
  addOutputOptions(*command, output_, true, true);
  command->callback([this] {
    status_ = convertCommand(compile_, execution_, output_, target_, dryRun_);
  });
}

void CommandLine::addCompile() {
  CLI::App *command =
      add("compile", "Write a plan that runs on another machine",
          "  mbc compile DeepSeek-V3 -o v3.mbc --tp 8 --pp 16 --ep 64\n"
          "Reads config.json and the headers of the weight files only.");
  command->add_option("SRC", compile_.source, "Checkpoint directory")
      ->required();
  command->add_option("-o", plan_, "Plan file")->required()->type_name("PLAN");
  addCompileOptions(*command, compile_, true);
  addOutputOptions(*command, output_, true, false);
  command->callback(
      [this] { status_ = compileCommand(compile_, output_, plan_); });
}

void CommandLine::addRun() {
  CLI::App *command =
      add("run", "Run a plan; needs no compiler",
          "  mbc run v3.mbc --from /data/DeepSeek-V3 v3-megatron\n"
          "Without --from the source is the directory that holds the plan.");
  command->add_option("PLAN", plan_, "Plan file")->required();
  command->add_option("DST", target_, "New or empty directory")->required();
  command->add_option("--from", from_, "Source directory")->type_name("SRC");
  addExecutionOptions(*command, execution_);
  addOutputOptions(*command, output_, true, true);
  command->callback([this] {
    status_ = runPlanCommand(plan_, from_, target_, execution_, output_);
  });
}

void CommandLine::addCheck() {
  CLI::App *command =
      add("check", "All that can be known without reading tensors",
          "  mbc check Qwen3-8B --tp 4\n"
          "  mbc check --spec my.mbspec --config config.json\n"
          "-v lists the mapping as understood, --proof what comes back of each "
          "rule. Exit status 1: findings.");
  CLI::Option *source =
      command->add_option("SRC", compile_.source, "Checkpoint directory");
  addCompileOptions(*command, compile_, true);
  command
      ->add_option("--config", compile_.config,
                   "config.json for a spec without a checkpoint")
      ->excludes(source);
  command
      ->add_flag("--proof", compile_.proof,
                 "Of each rule: at which sizes every element comes back, and "
                 "what does not")
      ->needs(source);
  addOutputOptions(*command, output_, true, true);
  command->callback([this] {
    if (compile_.source.empty() && compile_.spec.empty())
      throw CLI::RequiredError("SRC or --spec FILE");
    status_ = checkCommand(compile_, output_);
  });
}

void CommandLine::addList() {
  CLI::App *command = add("ls", "List the tensors of a checkpoint",
                          "  mbc ls qwen3-megatron\n"
                          "  mbc ls qwen3-megatron --sha256 --json\n"
                          "  mbc ls qwen3-megatron --shards tp=2,pp=2");
  command->add_option("CKPT", checkpoint_, "Checkpoint directory")->required();
  command->add_flag("--sha256", listing_.sha256,
                    "Hash of each tensor's row-major little-endian bytes");
  command->add_flag("--keys", listing_.keys,
                    "The file's own keys, byte objects included");
  command
      ->add_option("--shards", shards_,
                   "What each rank of a layout would load, as tp=2,pp=1")
      ->type_name("SIZES");
  addOutputOptions(*command, output_, false, false);
  command->callback([this] {
    listing_.json = output_.json;
    status_ = listCommand(checkpoint_, listing_, shards_);
  });
}

void CommandLine::addGraph() {
  CLI::App *command =
      add("graph", "Show the generated graph",
          "  mbc graph Qwen3-8B --stage fused --tp 2\n"
          "  mbc graph Qwen3-8B --format dot | dot -Tsvg > rules.svg");
  command->add_option("SRC", compile_.source, "Checkpoint directory")
      ->required();
  command->add_option("--stage", compile_.graphStage, "Stage (default rules)")
      ->check(CLI::IsMember({"rules", "fused"}));
  command->add_option("--format", compile_.graphFormat, "Text (default mlir)")
      ->check(CLI::IsMember({"mlir", "dot"}));
  command->add_option("-o", file_, "File instead of standard output");
  addCompileOptions(*command, compile_, false);
  command->callback(
      [this] { status_ = graphCommand(compile_, output_, file_); });
}

void CommandLine::addSpecs() {
  CLI::App *command =
      add("specs", "The families known, and what of each is supported",
          "  mbc specs\n"
          "  mbc specs --json    model types and forms of files as well\n"
          "A line \"uncertain\" is what the spec itself says that no "
          "published file or code settles.");
  command->add_option("--spec-path", compile_.specPath,
                      "Directory of specs instead of the shipped ones");
  addOutputOptions(*command, output_, false, false);
  command->callback([this] { status_ = specsCommand(compile_, output_); });
}

void CommandLine::addSpecNew() {
  CLI::App *spec = add("spec", "Write a spec of your own",
                       "  mbc spec new Foo-8B -o foo.mbspec");
  spec->require_subcommand(1);
  CLI::App *command = spec->add_subcommand(
      "new", "Draft a spec from a checkpoint's headers and config");
  command->footer("\nExample:\n  mbc spec new Foo-8B -o foo.mbspec\n"
                  "  mbc check Foo-8B --spec foo.mbspec\n"
                  "The draft follows the shipped spec that leaves the fewest "
                  "names over; what it cannot place\nis listed in comments.");
  command->add_option("CKPT", compile_.source, "Hugging Face directory")
      ->required();
  command->add_option("-o", file_, "File instead of standard output");
  command->add_option("--spec-path", compile_.specPath,
                      "Directory of specs instead of the shipped ones");
  command->callback(
      [this] { status_ = draftCommand(compile_, output_, file_); });
}

void CommandLine::addFormat() {
  CLI::App *command =
      add("fmt", "Give specs their usual layout",
          "  mbc fmt my.mbspec\n"
          "  mbc fmt --check specs/*.mbspec    names what would change\n"
          "  mbc fmt - < my.mbspec             to standard output\n"
          "Only blanks and line breaks change. A file with errors is left "
          "alone. Exit status 1: errors, or --check found something.");
  command->add_option("FILE", specs_, "Specs; - is standard input")->required();
  command->add_flag("--check", formatCheck_,
                    "Name what would change, and "
                    "write nothing");
  command->callback([this] { status_ = formatCommand(specs_, formatCheck_); });
}

void CommandLine::addLanguageServer() {
  CLI::App *command = add(
      "lsp", "Serve editors: the language server protocol on standard input",
      "  mbc lsp    as the command of a language server for *.mbspec\n"
      "Findings while typing, definitions, values and shapes, completion, "
      "layout. The initialization option \"config\",\n"
      "or a comment '# mbc.config: PATH', names the checkpoint or config.json "
      "for which values and shapes are shown.");
  command->add_option("--spec-path", compile_.specPath,
                      "Directory of specs instead of the shipped ones");
  command->callback(
      [this] { status_ = languageServerCommand(compile_.specPath); });
}

CommandLine::CommandLine() {
  app_.name("mbc");
  app_.require_subcommand(1);
  app_.set_version_flag("--version", fmt::format("mbc {}", version));
  app_.footer("\nExample:\n  mbc convert Qwen3-8B qwen3-megatron --tp 2\n"
              "'mbc COMMAND --help' explains a command. Exit status: 0 done, 1 "
              "failed or found something, 2 wrong usage.");
  addConvert();
  addCompile();
  addRun();
  addCheck();
  addList();
  addGraph();
  addSpecs();
  addSpecNew();
  addFormat();
  addLanguageServer();
}

/// The subcommand that was being read when parsing stopped.
const CLI::App &CommandLine::chosen() const {
  std::vector<CLI::App *> used = app_.get_subcommands();
  return used.empty() ? app_ : *used.front();
}

int CommandLine::wrongUsage(const CLI::ParseError &error) const {
  const CLI::App &command = chosen();
  std::string name = &command == &app_ ? "mbc" : "mbc " + command.get_name();
  std::string hint = fmt::format("; '{} --help' explains", name);
  // What was left over says more than what is missing because of it.
  for (const std::string &word : app_.remaining(true))
    if (word.starts_with("-") || &command == &app_)
      return report({fmt::format("{}: unknown {} '{}'{}{}", name,
                                 word.starts_with("-") ? "option" : "command",
                                 word, suggestion(command, word), hint)},
                    2);
  return report({fmt::format("{}: {}{}", name, error.what(), hint)}, 2);
}

int CommandLine::run(int argc, char **argv) {
  try {
    app_.parse(argc, argv);
    return status_;
  } catch (const CLI::CallForHelp &help) {
    if (&chosen() == &app_ && !app_.remaining().empty())
      return wrongUsage(help); // help on a command that there is not
    return app_.exit(help);
  } catch (const CLI::CallForVersion &version) {
    return app_.exit(version);
  } catch (const CLI::ParseError &error) {
    return wrongUsage(error);
  }
}

} // namespace

int runCommand(int argc, char **argv) {
  // A file that grows over the user's limit (ulimit -f) is then an error of
  // that file, and what was begun is removed.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return CommandLine().run(argc, argv);
  } catch (const std::exception &exception) {
    return report({fmt::format("the command failed: {}", exception.what())});
  }
}

} // namespace mbc
