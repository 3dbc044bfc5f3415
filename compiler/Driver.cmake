# What `mbc` loads at first use: everything from spec to plan, behind one
# function.
add_subdirectory(Binding)
add_subdirectory(LanguageServer)
add_subdirectory(Target)
add_library(mbc-compiler SHARED Compilation.cpp CompilePlan.cpp DraftSpec.cpp EvaluateSpec.cpp FindingsText.cpp Library.cpp ProofText.cpp)
target_link_libraries(mbc-compiler PRIVATE mbc-target mbc-language-server mbc-graph mbc-flags)
# Only the function that `mbc` looks up is visible: all else is bound when it is linked, not when it is loaded.
set_target_properties(mbc-compiler PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_link_options(mbc-compiler PRIVATE -Wl,--exclude-libs,ALL)
