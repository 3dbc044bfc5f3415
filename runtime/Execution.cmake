# Plans and their execution, publication, and the command.
find_package(CLI11 REQUIRED)
find_program(MBC_FLATC flatc REQUIRED)

set(planHeader ${CMAKE_CURRENT_BINARY_DIR}/Plan_generated.h)
add_custom_command(OUTPUT ${planHeader}
  COMMAND ${MBC_FLATC} --cpp --gen-object-api -o ${CMAKE_CURRENT_BINARY_DIR}
          ${CMAKE_CURRENT_SOURCE_DIR}/Plan.fbs
  DEPENDS Plan.fbs VERBATIM)
add_custom_target(mbc-plan-schema DEPENDS ${planHeader})
add_dependencies(mbc-runtime mbc-plan-schema)

target_sources(mbc-runtime PRIVATE
  BufferPool.cpp
  Comparisons.cpp
  Executor.cpp
  ItemWriter.cpp
  KernelPieces.cpp
  OldCheckpoint.cpp
  Progress.cpp
  Publish.cpp
  RunLock.cpp
  TargetFraming.cpp
  UnitCompute.cpp
  UnitGraph.cpp
  Kernels.cpp
  Plan.cpp
  PlanCheck.cpp
  SourceFiles.cpp
  TargetFiles.cpp
  TileCopy.cpp
  Tiles.cpp
  UnitReads.cpp
  Units.cpp
)
target_link_libraries(mbc-runtime PRIVATE ${CMAKE_DL_LIBS})

# CLI11 throws; nothing of it is in the runtime's headers.
add_executable(mbc
  tools/mbc.cpp
  Command.cpp
  CommandConvert.cpp
  CommandList.cpp
  CommandOptions.cpp
  CommandSuggestion.cpp
  CommandSummary.cpp
  CompilerLibrary.cpp
)
target_link_libraries(mbc PRIVATE mbc-runtime CLI11::CLI11 ${CMAKE_DL_LIBS})
