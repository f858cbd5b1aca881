"""What algorithms are made of: learners, policies, advantages, replay, exploration."""
