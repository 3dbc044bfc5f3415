#include "compiler/Transforms/Passes.h"

#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace mbc::compiler {

void buildPipeline(OpPassManager &passes, Direction direction,
                   const ShardLayout &layout) {
  // A rule has no direction of its own; from here on it has one.
  MbOrientOptions orient;
  orient.direction = direction == Direction::Export ? "export" : "import";
  passes.addPass(createMbOrient(orient));
  // Both ends become what is stored: the source's parts ...
  passes.addPass(createMbAssemble());
  // ... and the target's shards.
  MbShardOptions shard;
  shard.tp = layout.tp;
  shard.etp = layout.etp;
  shard.ep = layout.ep;
  shard.join = layout.joinSections;
  passes.addPass(createMbShard(shard));
  // One operation an output, reading only the elements that it needs.
  passes.addPass(createMbFuse());
  // Arithmetic needs a kernel, movement does not.
  passes.addPass(createMbClassify());
  // Nothing but fused operations is left, and they tile what they write.
  passes.addPass(createMbVerifyFused());
}

namespace {

struct CompileOptions : PassPipelineOptions<CompileOptions> {
  Option<std::string> direction{*this, "direction", llvm::cl::init("import")};
  Option<int64_t> tp{*this, "tp", llvm::cl::init(1)};
  Option<int64_t> etp{*this, "etp", llvm::cl::init(1)};
  Option<int64_t> ep{*this, "ep", llvm::cl::init(1)};
  Option<bool> join{*this, "join", llvm::cl::init(false)};
};

} // namespace

void registerGraphPasses() {
  registerPasses();
  PassPipelineRegistration<CompileOptions>(
      "mb-compile", "All passes of the tensor graph",
      [](OpPassManager &passes, const CompileOptions &options) {
        buildPipeline(passes,
                      options.direction == "export" ? Direction::Export
                                                    : Direction::Import,
                      {options.tp, options.etp, options.ep, options.join});
      });
}

} // namespace mbc::compiler
