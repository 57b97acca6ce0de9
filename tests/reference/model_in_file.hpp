// Fixture of tests that write their models themselves: MJCF in a file, read by libmujoco and by the program.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "src/model_import/import.hpp"
#include "src/model_import/mujoco_model.hpp"

namespace maniple {

class ModelInFile : public ::testing::Test {
 protected:
  ~ModelInFile() override {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  ModelConfig model_config() const {
    ModelConfig config;
    config.file = config.path = path_.string();
    return config;
  }
  void load_file(const SimulationConfig& simulation = {}) {
    imported_ = import_model(model_config(), simulation);
    mujoco_ = load_mujoco_model(model_config(), simulation);
  }
  void load_text(const std::string& text, const SimulationConfig& simulation = {}) {
    std::ofstream(path_) << text;
    load_file(simulation);
  }

  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("maniple_model_" + std::to_string(getpid()) + ".xml");
  MujocoModel mujoco_;
  ImportedModel imported_;
};

}  // namespace maniple
