#pragma once

#include <stddef.h>
#include <stdint.h>

/// How `mbc` reaches libmbc-compiler.so: one C function table, so that the
/// command itself links no LLVM and can say what is missing.
#ifdef __cplusplus
extern "C" {
#endif

#define MBC_COMPILER_ABI 5

/// The options of convert, compile and check, as given on the command line.
/// A null string or a zero number means "not given".
struct mbc_compile_options {
  const char *source; ///< checkpoint directory; null: a spec alone is checked
  const char *spec;   ///< --spec FILE
  const char *spec_path;  ///< --spec-path DIR; the shipped specs if null
  const char *config;     ///< --config FILE, for a spec without a checkpoint
  const char *to;         ///< "megatron", "hf"
  const char *format;     ///< "torch_dist", "torch", "hf"
  const char *experts;    ///< "grouped", "sequential"
  const char *hf_experts; ///< "per-expert", "fused"
  const char *forms;      ///< --form NAME, several between commas
  const char *dtype;      ///< "keep", "bf16", "f16", "f32"
  const char *quant;      ///< "none", "keep", "fp8-block", "mxfp4", "nvfp4"
  const char *copies;     ///< "check", "drop"
  const char *hf_config;  ///< --hf-config DIR
  const char *pipeline_layout; ///< --pipeline-layout TEXT
  int64_t tp, pp, vpp, ep, etp;
  int64_t first_stage_layers, last_stage_layers;
  int64_t vocab_divisor;    ///< --make-vocab-size-divisible-by
  int64_t max_shard_size;   ///< bytes
  int64_t iteration;        ///< 0: a release
  const char *graph_stage;  ///< graph only: "rules", "fused"
  const char *graph_format; ///< graph only: "mlir", "dot"
  int32_t verbose;          ///< check -v: the mapping as understood
  int32_t proof;            ///< check --proof: what comes back, rule by rule
  int32_t json;
  int32_t quiet; ///< errors only
};

/// Receives a result piece by piece.
struct mbc_sink {
  void (*write)(void *context, const char *bytes, size_t count);
  void *context;
};

/// Gives the next bytes of an input, at most `count`: as soon as there are any,
/// and none at its end.
struct mbc_source {
  size_t (*read)(void *context, char *bytes, size_t count);
  void *context;
};

/// Bytes that stay with the caller.
struct mbc_text {
  const char *bytes;
  size_t count;
};

/// Each function writes its result to `out`, findings as text to
/// `diagnostics`, and returns an exit status: 0, or 1 if something was found.
/// With `json`, what `compile` and `check` found is a document in `out`.
struct mbc_compiler {
  uint32_t abi; ///< MBC_COMPILER_ABI
  int (*compile)(const mbc_compile_options *, mbc_sink out,
                 mbc_sink diagnostics);
  int (*check)(const mbc_compile_options *, mbc_sink out, mbc_sink diagnostics);
  int (*graph)(const mbc_compile_options *, mbc_sink out, mbc_sink diagnostics);
  int (*specs)(const mbc_compile_options *, mbc_sink out, mbc_sink diagnostics);
  /// A first spec for a checkpoint.
  int (*draft)(const mbc_compile_options *, mbc_sink out, mbc_sink diagnostics);
  /// A spec's text in the usual layout; `path` is its name in messages.
  int (*format)(const char *path, mbc_text spec, mbc_sink out,
                mbc_sink diagnostics);
  /// The language server, until its editor leaves. `spec_path` as above.
  int (*serve)(const char *spec_path, mbc_source in, mbc_sink out,
               mbc_sink diagnostics);
};

/// The only symbol that the library exports for `mbc`.
const mbc_compiler *mbc_compiler_table(void);

#ifdef __cplusplus
}
#endif
