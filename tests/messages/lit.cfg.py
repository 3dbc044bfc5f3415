import os

import lit.formats

config.name = "mbc messages"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.build_dir, "lit")
config.environment["PATH"] = os.pathsep.join(
    [config.bin_dir, config.environment["PATH"]]
)
config.substitutions.append(("%data", config.data_dir))
# Runs `mbc` on a changed fixture and compares everything it says.
config.substitutions.append(("%says", os.path.join(config.test_source_root, "says")))
