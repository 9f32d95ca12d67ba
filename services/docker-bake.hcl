# Builds all images for amd64 and arm64, from the top of the repository:
#
#   REGISTRY=registry.example.org/ docker buildx bake -f services/docker-bake.hcl --push
#
# Only for this host, into its own Docker:
#
#   docker buildx bake -f services/docker-bake.hcl --set '*.platform=linux/amd64' --load worker trainer

variable "REGISTRY" {
  default = ""
}

variable "VERSION" {
  default = "0.1.0"
}

group "default" {
  targets = ["worker", "trainer", "trainer-gpu"]
}

target "image" {
  context    = "."
  dockerfile = "services/Dockerfile"
  platforms  = ["linux/amd64", "linux/arm64"]
}

target "worker" {
  inherits = ["image"]
  target   = "worker"
  tags     = ["${REGISTRY}videoload-worker:${VERSION}"]
}

target "trainer" {
  inherits = ["image"]
  target   = "trainer"
  tags     = ["${REGISTRY}videoload-trainer:${VERSION}"]
}

target "trainer-gpu" {
  inherits  = ["trainer"]
  platforms = ["linux/amd64"]
  args      = { TENSORFLOW = "tensorflow[and-cuda]" }
  tags      = ["${REGISTRY}videoload-trainer-gpu:${VERSION}"]
}
