import os

import lit.formats

config.name = "mbc graph"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.build_dir, "lit")
config.environment["PATH"] = os.pathsep.join(
    [config.mbc_opt_dir, config.llvm_tools_dir, config.environment["PATH"]]
)
